"""``cgverify report``: draw what a benchmark or a campaign has written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cgverify.commands.options import one_line_errors, write_text

import typer


def report(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="What bench, campaign merge or mutants wrote as JSON.")
    ],
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where the page goes; beside the first file if not given.")
    ] = None,
) -> int:
    """Draw a benchmark or a campaign as one page that needs no network.

    A campaign's page also shows the score of planted faults if the file of cgverify mutants --json is given too.
    """
    from cgverify.report.page import PageError
    from cgverify.report.reading import ReadingError, render_files

    with one_line_errors(PageError, ReadingError):
        page = render_files(files)
    path = html or str(Path(files[0]).with_suffix(".html"))
    write_text(path, page)
    print(f"drawn in {path}")
    return 0
