"""``cgverify doctor``: say what works on this machine."""

from __future__ import annotations

from dataclasses import asdict

from cgverify.commands.options import STANDARD_OUTPUT, JsonOption, write_json

from rich.console import Console
from rich.markup import escape

WORDS = {True: "[green]yes[/]", False: "[red]no [/]", None: "-  "}


def doctor(json_file: JsonOption = None) -> int:
    """Say what works here: Python, PyTorch, Thunder, the GPU, the emulation."""
    from cgverify.doctor import examine

    findings = list(examine())
    if json_file is not None:
        write_json("doctor", {"findings": [asdict(finding) for finding in findings]}, json_file)
    if json_file != STANDARD_OUTPUT:
        console = Console(highlight=False, soft_wrap=True)
        for finding in findings:
            console.print(f"{finding.part:<14} {WORDS[finding.works]} {escape(finding.found)}")
    return 2 if any(finding.works is False for finding in findings) else 0
