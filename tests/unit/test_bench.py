"""The benchmark: every peer is right before it is timed, ratios are of one run, and what cannot be timed says so."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from cgverify import cli
from cgverify.bench import command, comparison, peers, plot
from cgverify.bench.bare import BareGraph
from cgverify.bench.cases import (
    CASES,
    REDUCED,
    SEEDS,
    UnknownCaseError,
    chain_source,
    choose_cases,
    make_block,
    make_chain,
)
from cgverify.bench.measure import Effort, ReservedMemory, Timing, time_in_turn
from cgverify.bench.memory import Memory, with_memory
from cgverify.bench.report import print_targets
from cgverify.bench.rows import FAILED, LEFT_OUT, OK, WRONG, Row, Safety, with_ratios
from cgverify.bench.targets import compute_targets

import pytest
import torch
from rich.console import Console

Output = pytest.CaptureFixture[str]
EFFORT = Effort(samples=3, calls=4, sample_seconds=1.0, fewest=1, host_samples=2)


def bench(*arguments: str) -> int:
    """Run ``cgverify bench`` on the emulation."""
    return cli.main(["bench", "--device", "emulated", *arguments])


def timing(throughput: float, host: float = 1.0) -> Timing:
    return Timing(throughput, host, calls=200)


def test_every_peer_is_right_on_a_chain(capsys: Output) -> None:
    """Each peer that the emulation can run is right on a chain with each executor, and is timed."""
    assert bench("--cases", "chain-6x2", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["version"]) == ("cgverify-benchmark", 1)
    assert found["machine"]["device"] == "emulated: times say nothing"
    status = {(row["peer"], row["executor"]): row["status"] for row in found["rows"]}
    thunders = ("thunder", "cgverify", "cgverify-copying", "thunder-graphs", "floor")
    without_whole = ("cgverify-copying", "floor")
    assert status == {
        ("eager", ""): OK,
        **{(peer, executor): OK for peer in thunders for executor in ("torch", "torchcompile")},
        ("torch.compile", ""): LEFT_OUT,
    }
    assert {target["what"] for target in found["targets"]} >= {"computation over the floor"}
    for row in found["rows"]:
        assert (row["prologue"] is not None) == (row["peer"] == "cgverify"), row
        assert (row["whole"] is not None) == (row["status"] == OK and row["peer"] not in without_whole), row
        assert (row["computation"] is not None) == (row["peer"] in thunders), row
        assert (row["safety"] is not None) == (row["peer"] == "cgverify-copying"), row


@pytest.mark.slow
def test_block_is_trained_alike(capsys: Output) -> None:
    """In training loss and gradients of each peer are eager's, and cgverify's forward and backward are both graphed."""
    assert bench("--cases", "block-training", "--json", "-") == 0
    rows = {row["peer"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {peer: row["status"] for peer, row in rows.items() if peer != "torch.compile"} == dict.fromkeys(
        ("eager", "thunder", "cgverify", "thunder-graphs", "floor"), OK
    )
    assert rows["cgverify"]["safety"]["regions"] == 2
    assert {row["reserved"] for row in rows.values()} == {None}, "the emulation's memory says nothing of torch's"


def test_tables_and_json_file(tmp_path: Path, capsys: Output) -> None:
    """Tables go to standard output with a reason for what was left out, and ``--json FILE`` writes the same rows."""
    file = tmp_path / "bench.json"
    assert bench("--cases", "chain-8x4-4out", "--json", str(file)) == 0
    out = capsys.readouterr().out
    assert "chain-8x4-4out: 8 pointwise ops, 4 inputs, 4 results, 1,024 float32 elements each" in out
    assert "torch.compile: the emulation does not compile" in out
    assert "what safety costs" in out
    assert len(json.loads(file.read_text())["rows"]) == 7


class OffByOne(peers.DirectPeer):
    """Adds one to the first result of the third set of inputs."""

    calls = 0

    def results(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        self.calls += 1
        results = super().results(inputs)
        return [results[0] + 1, *results[1:]] if self.calls == 3 else results


class Fails(peers.DirectPeer):
    """Cannot be called."""

    def results(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        raise RuntimeError("no idea\nand more")


@pytest.mark.parametrize(
    ("broken", "status", "remark"),
    [
        (OffByOne, WRONG, "call 3 differs from eager: result 0 is off by 1, allowed 0"),
        (Fails, FAILED, "RuntimeError: no idea"),
    ],
)
def test_peer_that_is_wrong_is_not_timed(
    broken: type[peers.DirectPeer], status: str, remark: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A peer that is wrong or raises has a row that says so and no times; if it is cgverify the exit code is 1."""
    make = comparison.make_peer
    monkeypatch.setattr(
        comparison,
        "make_peer",
        lambda name, w, *rest: broken(w, w.function) if name == "cgverify" else make(name, w, *rest),
    )
    assert bench("--cases", "chain-8x4-4out", "--json", "-") == 1
    rows = {row["peer"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert (rows["cgverify"]["status"], rows["cgverify"]["remark"]) == (status, remark)
    assert rows["cgverify"]["whole"] is rows["cgverify"]["computation"] is rows["cgverify"]["to_floor"] is None
    assert rows["thunder"]["status"] == rows["floor"]["status"] == OK


def test_limit_of_time_leaves_rows(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the limit of time is reached, what is left has rows that say so."""
    clock = iter(range(0, 10**6, 60))
    monkeypatch.setattr(comparison, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert bench("--seconds", "30", "--json", "-") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["case"] for row in rows} == {case.name for case in REDUCED}
    assert {row["status"] for row in rows} == {LEFT_OUT}
    assert rows[0]["remark"] == "the limit of 30 s was reached: raise --seconds or choose --cases"


def test_unusable_request_is_one_line(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be run or written exits 2, before anything runs, with one line that says what to do."""
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    missing = str(tmp_path / "none" / "bench.json")
    for arguments, message in (
        (["--cases", "chain-6x2,chian-*"], "no case is called 'chian-*': choose among chain-6x2, "),
        (["--json", missing], f"cannot write {missing}: its folder does not exist; make it first"),
        (
            ["--plot", "bench.svg"],
            "cannot draw a plot: matplotlib is not installed; pip install 'cgverify[report]'",
        ),
    ):
        assert bench(*arguments) == 2
        written = capsys.readouterr()
        assert written.out == ""
        assert written.err.startswith(f"error: {message}")
        assert written.err.count("\n") == 1


def test_plot_is_written(tmp_path: Path) -> None:
    """The plot is a file of the format that its ending names; a bad ending is an error of one line."""
    pytest.importorskip("matplotlib")
    rows = [
        Row("c", "", "eager", whole=timing(40)),
        Row("c", "torch", "cgverify", computation=timing(22)),
        Row("c", "torch", "floor", computation=timing(20)),
    ]
    file = tmp_path / "bench.svg"
    plot.save_plot(rows, str(file))
    text = file.read_text()
    assert text.startswith("<?xml") and "cgverify" in text
    with pytest.raises(plot.PlotError, match=r"cannot write .*give a path that ends in"):
        plot.save_plot(rows, str(tmp_path / "bench.nonsense"))


def test_ratios_are_of_one_case_and_executor() -> None:
    """Computations are held against those of one executor, whole calls against Thunder's graphs and torch.compile."""
    rows = with_ratios(
        [
            Row("c", "", "eager", whole=timing(300)),
            Row("c", "torch", "cgverify", whole=timing(90), computation=timing(30)),
            Row("c", "torch", "thunder-graphs", whole=timing(60), computation=timing(40)),
            Row("c", "torch", "floor", computation=timing(20, host=15)),
            Row("c", "torchcompile", "cgverify", whole=timing(75), computation=timing(15)),
            Row("c", "torchcompile", "floor", computation=timing(10, host=7)),
            Row("c", "", "torch.compile", whole=timing(50)),
        ]
    )
    columns = [(r.to_floor, r.to_thunder_graphs, r.whole_to_thunder_graphs, r.whole_to_compile, r.limit) for r in rows]
    assert columns == [
        (15.0, 7.5, 5.0, 6.0, "host"),
        (1.5, 0.75, 1.5, 1.8, "host"),
        (2.0, 1.0, 1.0, 1.2, "host"),
        (1.0, 0.5, None, None, "host"),
        (1.5, None, None, 1.5, "GPU"),
        (1.0, None, None, None, "GPU"),
        (None, None, None, 1.0, None),
    ]


def test_targets_are_held_against_their_bounds(capsys: Output) -> None:
    """Each kind of target gets its figure, its bound and whether it is met; what cannot be computed says so."""
    safety = Safety(1, timing(25.0), timing(22.0))
    rows = with_ratios(
        [
            Row("chain-128x64", "torch", "cgverify", computation=timing(24, host=20)),
            Row("chain-128x64", "torch", "cgverify-copying", computation=timing(28, host=20), safety=safety),
            Row("chain-128x64", "torch", "thunder-graphs", computation=timing(40)),
            Row("chain-128x64", "torch", "floor", computation=timing(20, host=18)),
            Row("chain-128x64", "torchcompile", "cgverify", computation=timing(23), whole=timing(90), safety=safety),
            Row("chain-128x64", "torchcompile", "floor", computation=timing(20, host=3)),
            Row("chain-128x64", "", "torch.compile", whole=timing(60)),
        ]
    )
    rows += [
        Row("block-training", "", "eager", reserved=100 << 20),
        Row("block-training", "torch", "cgverify", reserved=130 << 20, fresh_bytes=20 << 20),
    ]
    targets = compute_targets(rows)
    found = [
        (t.what, t.executor, t.figure and round(t.figure, 3), t.bound and round(t.bound, 3), t.met) for t in targets
    ]
    assert found == [
        ("computation over the floor", "torch", 1.2, 1.25, True),
        ("the same, inputs that move", "torch", 1.4, None, None),
        ("computation over the floor", "torchcompile", 1.15, 1.1, False),
        ("computation over Thunder's own graphs", "torch", 0.6, 0.625, True),
        ("graphs for the lone fused symbol", "torchcompile", 1, 1, True),
        ("whole call over torch.compile's", "torchcompile", 1.5, None, None),
        ("training memory over eager's", "torch", 1.1, 1.15, True),
    ]
    print_targets(targets, Console(width=200))
    shown = capsys.readouterr().out
    assert "safety costs +3.0 us where inputs move" in shown
    assert "+8.0 us: +3.0 in regions, +5.0 in Thunder's function around them" in shown


def test_chain_uses_every_input_once_per_round() -> None:
    """A chain adds each input in turn, halves in between, and returns its last values."""
    assert chain_source(4, 2, 2) == (
        "def chain(x0, x1):\n"
        "    t0 = x0 + x1\n"
        "    t1 = t0 * 0.5\n"
        "    t2 = t1 + x0\n"
        "    t3 = t2 * 0.5\n"
        "    return t2, t3\n"
    )
    for ops, inputs in ((6, 2), (32, 16), (128, 64), (512, 256)):
        source = chain_source(ops, inputs)
        assert {f"x{k}" for k in range(inputs)} <= set(source.replace("(", " ").replace(",", " ").split()[3:])


def test_cases_cover_what_is_promised() -> None:
    """Names are unique, and the full run has chains from 6 to 512 ops, 2 to 256 inputs, and blocks in both modes."""
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {"chain-6x2", "chain-512x256", "chain-128x64-65536", "block-inference", "block-large-training"} <= set(names)
    assert all(set(case.quick) <= set(case.executors) for case in CASES)


def test_cases_are_chosen_by_pattern() -> None:
    """Patterns choose in the order of the table; without any, a quick run takes the quick cases."""
    assert [case.name for case in choose_cases(CASES, "block-training, chain-6x2*", quick=True)] == [
        "chain-6x2",
        "block-training",
        "chain-6x2-1048576",
    ]
    quick = choose_cases(CASES, None, quick=True)
    assert [case.name for case in quick] == [case.name for case in CASES if case.quick]
    assert [(case.executors, case.compiled) for case in quick if case.name in ("chain-6x2", "block-training")] == [
        (("torch", "torchcompile"), True),
        (("torch",), False),
    ]
    assert choose_cases(CASES, None, quick=False) == CASES
    with pytest.raises(UnknownCaseError, match="no case is called 'block'"):
        choose_cases(CASES, "block", quick=False)


def test_workloads_repeat(cuda: object) -> None:
    """Two workloads of one kind hold the same values, a set of inputs for each seed, on the device."""
    for make in (lambda: make_chain(6, 2, 8), lambda: make_block(1, 4, 8, 2, training=True)):
        one, other = make(), make()
        assert len(one.inputs) == len(SEEDS)
        for mine, theirs in zip(one.inputs, other.inputs, strict=True):
            assert all(torch.equal(a, b) and a.device.type == "cuda" for a, b in zip(mine, theirs, strict=True))
        for parameter, same in zip(one.parameters, other.parameters, strict=True):
            assert torch.equal(parameter, same) and parameter.requires_grad


@pytest.mark.parametrize("results", [1, 5])
def test_bare_graph_gives_results_of_the_callers_own(cuda: object, results: int) -> None:
    """The floor copies each new input in, reads what is in place where it lies, and earlier results stay."""
    weight, x = torch.full((4,), 3.0, device="cuda"), torch.ones(4, device="cuda")
    graph = BareGraph(lambda x, w: [x * w + k for k in range(results)], [x, weight], in_place={1})
    first = graph(x, weight)
    weight.fill_(5.0)
    second = graph(x * 2, weight)
    assert [t.tolist() for t in first] == [[3.0 + k] * 4 for k in range(results)]
    assert [t.tolist() for t in second] == [[10.0 + k] * 4 for k in range(results)]


def test_functions_are_timed_in_turn(cuda: object) -> None:
    """Each sample runs every function before the next sample begins, and as many calls as the effort says."""
    order: list[str] = []
    found = time_in_turn({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, EFFORT)
    assert {name: timing.calls for name, timing in found.items()} == {"a": 4, "b": 4}
    samples = ["a"] * 4 + ["b"] * 4
    assert order == ["a"] * 2 + ["b"] * 2 + samples * (EFFORT.samples + EFFORT.host_samples)


def test_memory_is_a_peer_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row that ran well gets what was measured apart for its case, executor and peer, or why there is nothing."""
    rows = [
        Row("b", "", "eager"),
        Row("b", "torch", "thunder", status="failed"),
        Row("b", "torch", "cgverify"),
        Row("b", "torch", "floor"),
        Row("b", "torchcompile", "cgverify"),
    ]
    answers = {
        ("b", "", "eager"): Memory(30, 40, 8),
        ("b", "torch", "cgverify"): "OutOfMemoryError: no",
        ("b", "torchcompile", "cgverify"): None,
    }
    monkeypatch.setattr("cgverify.bench.memory.call_in_order", lambda function, jobs, *rest: map(answers.get, jobs))
    found = [(row.reserved, row.reserved_first, row.workspaces, row.remark) for row in with_memory(rows)]
    assert found == [
        (30, 40, 8, ""),
        (None, None, None, ""),
        (None, None, None, "its memory could not be measured: OutOfMemoryError: no"),
        (None, None, None, ""),
        (None, None, None, "its memory could not be measured: its process died"),
    ]


def test_memory_is_held_against_eager_s() -> None:
    """Inputs and gradients are apart, workspaces count, and the line says how large they are."""
    mib = 1 << 20
    rows = [
        Row("block-training", "", "eager", reserved=92 * mib, workspaces=64 * mib),
        Row("block-training", "torch", "cgverify", reserved=105 * mib, workspaces=64 * mib, fresh_bytes=13 * mib),
    ]
    (target,) = compute_targets(rows)
    assert (target.figure, target.met) == (1.0, True)
    assert "cgverify 105 MiB, 64 of it workspaces, eager 92 MiB, 64 of it workspaces; 13 MiB of" in target.remark


def test_reserved_memory_is_a_peak_above_the_start(cuda: object) -> None:
    """What was reserved before does not count; what was freed since does, until a restart."""
    held = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    memory = ReservedMemory()
    assert memory.peak() == 0
    del held
    torch.cuda.empty_cache()
    big = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    del big
    assert memory.peak() == 32 << 20
    memory.restart()
    assert memory.peak() == -(32 << 20)


def test_request_names_an_unknown_peer() -> None:
    """An unknown peer is an error that lists the known ones."""
    with pytest.raises(ValueError, match="unknown peer 'best': choose one of eager, thunder, cgverify"):
        peers.make_peer("best", make_nothing(), "torch")
    assert not command.has_fault([Row("c", "", "eager", status=WRONG), Row("c", "torch", "cgverify")])


def make_nothing() -> comparison.Workload:
    return comparison.Workload(lambda x: x, (), (), 0.0)
