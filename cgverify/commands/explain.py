"""``cgverify explain``: print a rule's manual."""

from __future__ import annotations

from typing import Annotated

from cgverify.commands.options import STANDARD_OUTPUT, CommandError, JsonOption, write_json

import typer


def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A rule's code or name, such as CG401.")],
    json_file: JsonOption = None,
) -> int:
    """Print what a rule checks, why, and what to do."""
    from cgverify.verifier import registry

    try:
        manual = registry.explain(code)
    except KeyError as error:
        raise CommandError(str(error.args[0])) from error
    if json_file is not None:
        write_json("rule", {"code": manual.split()[0], "manual": manual}, json_file)
    if json_file != STANDARD_OUTPUT:
        print(manual, end="")
    return 0
