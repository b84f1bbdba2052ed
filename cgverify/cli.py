"""The command line: ``cgverify`` and ``python -m cgverify``, put together from ``cgverify/commands``.

Exit codes: 0 fine, 1 findings, 2 usage, environment or unreadable input, 130 interrupted. Findings go to standard
output, in plain text where that is not a terminal; an error is one line on standard error: what, why, what to do.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cgverify import __version__
from cgverify.commands import campaign
from cgverify.commands.bench import bench
from cgverify.commands.check import check
from cgverify.commands.doctor import doctor
from cgverify.commands.explain import explain
from cgverify.commands.fidelity import fidelity
from cgverify.commands.gate import gate
from cgverify.commands.mutants import mutants
from cgverify.commands.options import CommandError, fill_in_json
from cgverify.commands.report import report
from cgverify.commands.reproduce import reproduce
from cgverify.commands.show import show

import typer
import typer.core


class Interrupted(BaseException):
    """Somebody pressed Ctrl-C; some versions of typer end without a word on `KeyboardInterrupt`."""


class Group(typer.core.TyperGroup):
    """All commands, those of groups inside too."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for.

        Raises:
            Interrupted: somebody stopped it.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted from error


app = typer.Typer(
    name="cgverify",
    cls=Group,
    help="Prove, run and hunt: CUDA graphs as a transform of Lightning Thunder traces.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
INTERRUPTED = 130
"""Exit code that shells give to what Ctrl-C ended."""

COMMANDS: dict[Callable[..., int], str] = {
    check: "Verify what a transform makes of a function.",
    explain: "Print what a rule checks, why, and what to do.",
    show: "Draw what a transform makes of a function.",
    reproduce: "Run one failure again.",
    mutants: "Plant known faults and count those that are caught.",
    bench: "Time cgverify beside its peers.",
    report: "Draw a benchmark or a campaign as a page.",
    fidelity: "Compare the emulation with a real device.",
    gate: "Fuzz, and say whether a change may pass.",
    doctor: "Say what works on this machine.",
}
for command, line in COMMANDS.items():
    app.command(short_help=line)(command)
app.add_typer(campaign.app, name="campaign")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Thunder says on import which optional library it has not found; that is no news to whoever runs a command
    warnings.filterwarnings("ignore", "transformer_engine module not found", UserWarning)
    _open_streams()
    given = fill_in_json(sys.argv[1:] if arguments is None else list(arguments))
    try:
        code = app(args=given or ["--help"], prog_name="cgverify", standalone_mode=False)
        sys.stdout.flush()
    except CommandError as error:
        return _fail(str(error))
    except ImportError as error:
        return _fail(f"cannot import what this command needs: {error}")
    except (Interrupted, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return _stop_writing()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            return _report_fault()
        _stop_writing()
        return _fail("cannot write to standard output: No space left on device; make room")
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):
            return _stop_writing()
        if _COMPLETE in os.environ:  # a shell asks what could come next, and the answer ends the process
            return error.code if isinstance(error.code, int) else 0
        return _fail(f"code under check ended the process with SystemExit({error.code!r}); nothing was concluded")
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error: its class lives in click or in typer, by typer's version
            if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands alone, as `cgverify` alone
                print(error.format_message())
                return 0
            context = getattr(error, "ctx", None)
            where = "cgverify" if context is None else context.command_path
            found = error.format_message()
            return _fail(f"{found.rstrip('.')}; see {where} --help")
        return _report_fault()
    return code if isinstance(code, int) else 0


_COMPLETE = "_CGVERIFY_COMPLETE"


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


def _open_streams() -> None:
    """Let nothing that is printed fail: where a stream was closed nobody reads, and an encoding may lack characters."""
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _report_fault() -> int:
    """Print the exception that nobody expected."""
    traceback.print_exc()
    return _fail("this is a fault in cgverify: please report it with the lines above")


def _stop_writing() -> int:
    """Say nothing more: whoever read the output has had enough, and Python writes what is left when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2


def _fail(message: str) -> int:
    """Print one line to standard error and return the exit code for it."""
    print(f"error: {message}", file=sys.stderr)
    return 2
