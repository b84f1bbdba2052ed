"""The command line: ``cgverify`` and ``python -m cgverify``.

Exit codes: 0 fine, 1 findings, 2 usage, environment or unreadable input. Findings go to standard output, in plain text
where that is not a terminal; an error is one line on standard error: what, why, what to do. PyTorch and Thunder are
imported inside the commands, so that ``--help`` and a mistyped option cost nothing.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from cgverify import __version__

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from cgverify.checking import Checked

app = typer.Typer(
    name="cgverify",
    help="Prove, run and hunt: CUDA graphs as a transform of Lightning Thunder traces.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Format(str, Enum):
    """How findings are written."""

    text = "text"
    json = "json"
    github = "github"


class Device(str, Enum):
    """Where ``cuda`` tensors live."""

    auto = "auto"
    emulated = "emulated"
    cuda = "cuda"


TargetOption = Annotated[
    str,
    typer.Option(help="cgverify, thunder, none, module:attribute, FILE.py:attribute, or an attribute of the file."),
]
DeviceOption = Annotated[Device, typer.Option(help="auto takes a GPU where there is one, else the emulation.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = app(args=arguments or ["--help"], prog_name="cgverify", standalone_mode=False)
    except CommandError as error:
        return _fail(str(error))
    except ImportError as error:
        return _fail(f"cannot import what this command needs: {error}")
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted")
    except SystemExit as error:
        return _fail(f"code under check ended the process with SystemExit({error.code!r}); nothing was concluded")
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error: its class lives in click or in typer, by typer's version
            return _fail(f"{error.format_message()} See cgverify --help.")
        traceback.print_exc()
        return _fail("this is a fault in cgverify: please report it with the lines above")
    return code if isinstance(code, int) else 0


class CommandError(Exception):
    """A command cannot go on; the message says in one line what, why, and what to do."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cgverify {__version__}")
        raise typer.Exit(0)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of ``cgverify`` itself, before a command's."""


@app.command()
def check(
    location: Annotated[str, typer.Argument(metavar="FILE.py:FUNC", help="The function whose traces are checked.")],
    target: TargetOption = "cgverify",
    format: Annotated[Format, typer.Option(help="How findings are written.")] = Format.text,
    inputs: Annotated[str | None, typer.Option(help='Arguments, as in "f32[4,4] i64[4]".')] = None,
    device: DeviceOption = Device.auto,
) -> int:
    """Verify what a transform makes of a function: 0 proved, 1 not.

    The function's arguments come from FUNC_inputs(device) in the same file, or from --inputs.
    """
    from cgverify.checking import check_function
    from cgverify.loading import CheckError

    try:
        checked = check_function(location, target=target, inputs=inputs, device=device.value)
    except CheckError as error:
        raise CommandError(str(error)) from error
    print(_render(checked, format))
    return 0 if checked.ok else 1


def _render(checked: Checked, format: Format) -> str:
    if format is Format.json:
        reports = [json.loads(report.render("json")) for report in checked.reports]
        found = {"subject": checked.subject, "ok": checked.ok, "regions": checked.regions, "reports": reports}
        return json.dumps(found, indent=2)
    lines = [report.render(format.value) for report in checked.reports]
    if format is Format.text:
        regions = f"{checked.regions} region{'' if checked.regions == 1 else 's'}"
        lines.append(f"{checked.subject}: {'proved' if checked.ok else 'not proved'}, {regions}")
    return "\n".join(line for line in lines if line)


@app.command()
def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="A rule's code, such as CG401.")]) -> int:
    """Print what a rule checks, why, and what to do."""
    from cgverify.verifier import registry

    try:
        print(registry.explain(code), end="")
    except KeyError as error:
        raise CommandError(str(error.args[0])) from error
    return 0


@app.command()
def reproduce(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program file (.json) or a reproducer script (.py).")],
    target: Annotated[
        str | None, typer.Option(help="For a program file: cgverify (default), thunder, none, module:attribute.")
    ] = None,
    device: Annotated[Device | None, typer.Option(help="For a program file: auto (default), emulated, cuda.")] = None,
) -> int:
    """Run one failure again: 0 it does not show, 1 it does, 2 it cannot run here."""
    from cgverify.loading import CheckError
    from cgverify.reproducing import reproduce_program, reproduce_script

    try:
        if file.endswith(".py"):
            if target or device:
                raise CommandError(
                    f"{file} is a script with a target and a device of its own: drop --target and --device"
                )
            return reproduce_script(file)
        found = reproduce_program(file, target=target or "cgverify", device=(device or Device.auto).value)
    except CheckError as error:
        raise CommandError(str(error)) from error
    verdict = found.verdict
    print(found.source)
    print(f"{verdict.status}: {found.oracle}: {verdict.invariant} {verdict.evidence}".rstrip())
    return {"ok": 0, "fail": 1, "incomparable": 2}[verdict.status]


@app.command()
def mutants(
    programs: Annotated[int, typer.Option(help="How many random programs the faults are planted in.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Chooses the programs.")] = 0,
    device: DeviceOption = Device.auto,
) -> int:
    """Plant known faults and count those that are caught: 0 all, 1 not all."""
    from cgverify.scoring import count_alarms, hunt_mutants, score_mutators

    scores = score_mutators(programs, seed)
    for score in scores:
        remark = "" if score.ok else "  missed" if score.planted else "  never planted: draw more --programs"
        print(f"{score.code}  {score.name:<24} {score.caught}/{score.planted}{remark}")
    alarms = count_alarms(programs, seed)
    for alarm in alarms.false:
        print(f"false alarm  {alarm}")
    print(f"{len(alarms.false)} alarms on {alarms.pairs} right rewrites")
    hunts = hunt_mutants(programs, seed, device.value)
    for hunt in hunts:
        how = f"{hunt.caught} after {hunt.programs} programs" if hunt.caught else f"missed in {hunt.programs} programs"
        print(f"mutant {hunt.name:<24} {how if hunt.possible else 'needs a GPU to show'}")
    found = sum(score.ok for score in scores) + sum(bool(hunt.caught) for hunt in hunts)
    planted = len(scores) + sum(hunt.possible for hunt in hunts)
    print(f"{found} of {planted} planted faults are caught")
    return 0 if found == planted and not alarms.false else 1


@app.command()
def bench(
    cases: Annotated[str | None, typer.Option(help='Names or patterns, as in "chain-6x2,block-*".')] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and samples: under a minute.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Begin nothing new after this long.", min=1)] = None,
    device: DeviceOption = Device.auto,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write every row; - prints them in place of tables.")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the times; needs matplotlib.")] = None,
) -> int:
    """Time cgverify beside its peers, each checked against eager first: 1 if cgverify itself is wrong or fails.

    On the emulation it runs a few small cases, and the times say nothing.
    """
    from cgverify.bench.cases import UnknownCaseError
    from cgverify.bench.command import OutputError, Request, has_fault, run_bench
    from cgverify.bench.plot import PlotError
    from cgverify.loading import CheckError

    try:
        rows = run_bench(Request(device.value, cases, quick, seconds, json_file, plot))
    except (CheckError, OutputError, PlotError, UnknownCaseError) as error:
        raise CommandError(str(error)) from error
    return 1 if has_fault(rows) else 0


@app.command()
def fidelity() -> int:
    """Compare the emulation with the answers recorded on a real device: 0 equal, 1 not."""
    import subprocess
    from pathlib import Path

    import cgverify

    tests = Path(cgverify.__file__).parents[1] / "tests" / "unit" / "emulation" / "test_golden.py"
    if not tests.is_file():
        raise CommandError("no recorded answers here: they come with the repository; clone it and pip install -e .")
    command = [sys.executable, "-m", "pytest", "-q", str(tests), f"--rootdir={tests.parents[3]}"]
    code = subprocess.run(command, check=False).returncode
    return code if code in (0, 1) else 2


@app.command()
def doctor() -> int:
    """Say what works here: Python, PyTorch, Thunder, the GPU, the emulation."""
    from cgverify.doctor import examine

    findings = list(examine())
    console = Console(highlight=False, soft_wrap=True)
    words = {True: "[green]yes[/]", False: "[red]no [/]", None: "-  "}
    for finding in findings:
        console.print(f"{finding.part:<14} {words[finding.works]} {escape(finding.found)}")
    return 2 if any(finding.works is False for finding in findings) else 0


def _fail(message: str) -> int:
    """Print one line to standard error and return the exit code for it."""
    print(f"error: {message}", file=sys.stderr)
    return 2
