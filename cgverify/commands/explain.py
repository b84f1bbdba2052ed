"""``cgverify explain``: print a rule's manual."""

from __future__ import annotations

from typing import Annotated

from cgverify.commands.options import CommandError

import typer


def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="A rule's code, such as CG401.")]) -> int:
    """Print what a rule checks, why, and what to do."""
    from cgverify.verifier import registry

    try:
        print(registry.explain(code), end="")
    except KeyError as error:
        raise CommandError(str(error.args[0])) from error
    return 0
