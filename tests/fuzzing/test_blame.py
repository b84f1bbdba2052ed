"""A failing program is blamed on the first region with which it fails, or on what lies outside the regions."""

from __future__ import annotations

from pathlib import Path

from cgverify import cli
from cgverify.fuzzing.blame import find_blame
from cgverify.fuzzing.program import Input, Program, Step, encode_program
from cgverify.fuzzing.targets import Target, find_target

import pytest

ISLANDS = Program(
    inputs=(Input(shape=(3,)),),
    steps=(
        Step("mul", (0, 0)),
        Step("sum", (1,)),
        Step("item", (2,)),
        Step("number_full", (0, 0)),
        Step("add_", (0, 1)),
    ),
    outputs=(1, -1),
)
"""A region without effects, a number on the host, and a region that writes the input."""

MUTANTS = "cgverify.fuzzing.mutants"


def mutant(name: str) -> Target:
    """A planted fault as a target."""
    return find_target(f"{MUTANTS}:{name}")


def test_the_region_that_flips_the_verdict_is_named() -> None:
    """With a fault of writes, the region without writes may be graphed, and the one that writes is to blame, alone."""
    blame = find_blame(ISLANDS, mutant("LostWrite"), "emulated")
    assert blame is not None
    assert blame.region is not None
    assert (blame.region.name, blame.regions, blame.alone) == ("CUDAGraph1", 2, True)
    assert blame.verdict.invariant == "lost-write"
    assert any("copy_" in op for op in blame.region.ops)
    assert blame.render().startswith("to blame: CUDAGraph1 of computation, one of 2 regions, graphed alone")


def test_every_region_may_be_to_blame() -> None:
    """With a fault that any region shows, the first is to blame."""
    blame = find_blame(ISLANDS, mutant("SkippedReplay"), "emulated")
    assert blame is not None
    assert blame.region is not None
    assert blame.region.name == "CUDAGraph0"


def test_what_lies_outside_the_regions_is_told_apart() -> None:
    """A trace whose order is wrong fails with every region un-graphed too."""
    blame = find_blame(ISLANDS, mutant("CrossedBarrier"), "emulated")
    assert blame is not None
    assert blame.region is None
    assert "outside its" in blame.render()


@pytest.mark.parametrize("target", ["cgverify", "none"])
def test_nothing_is_to_blame_for_a_program_that_passes(target: str) -> None:
    """Neither a right transform nor none at all is blamed."""
    assert find_blame(ISLANDS, find_target(target), "emulated") is None


def test_the_command_blames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``cgverify reproduce --blame`` names the region; a script has a target of its own."""
    file = tmp_path / "islands.json"
    file.write_text(encode_program(ISLANDS))
    command = ["reproduce", str(file), "--target", f"{MUTANTS}:LostWrite", "--device", "emulated", "--blame"]
    command += ["--isolate", "never"]
    assert cli.main(command) == 1
    assert "to blame: CUDAGraph1 of computation" in capsys.readouterr().out
    assert cli.main(["reproduce", "script.py", "--blame"]) == 2
    assert "drop --target, --device, --blame" in capsys.readouterr().err
