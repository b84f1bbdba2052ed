"""Record what this machine's GPU answers: `python -m tests.golden.probes FOLDER`, from the project's root.

Writes JSON files named like those in tests/golden; takes a few minutes. Every kind of question is answered by child
processes, one after the other: an answer can leave its process unable to capture.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.golden.probes import addresses, details, legality, semantics
from tests.golden.probes.asking import error_line
from tests.golden.probes.snippets import SNIPPETS, VOCABULARY

import torch

SPENT = 3  # exit status of a child that can ask no more
TIME_LIMIT = 120.0  # seconds for one child


def questions(kind: str) -> dict[str, Callable[[], Any]]:
    """Return the questions of one kind by name."""
    if kind in ("legality", "vocabulary"):
        legality.warm_up()
        snippets = SNIPPETS if kind == "legality" else VOCABULARY
        return {name: partial(legality.judge, name, source) for name, source in snippets.items()}
    if kind == "thunder_faults":
        from tests.golden.probes import thunder_scenarios  # Thunder may be missing where the GPU is

        return {"n": thunder_scenarios.answers}
    if kind == "semantics":
        return {"torch": lambda: torch.__version__, "semantics": semantics.answers, "addresses": addresses.answers}
    return {name: partial(details.answer, name) for name in details.PROBES}


def answer(kind: str, path: Path) -> int:
    """Answer the questions that the file has no answer to, writing it after each; returns the exit status."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name, ask in questions(kind).items():
        if name in found:
            continue
        found[name] = ["CRASHED"]  # what stays if the process dies
        path.write_text(json.dumps(found, indent=1))
        try:
            found[name] = ask()
        except Exception as error:
            found[name] = [f"BROKE {error_line(error)}"]
        path.write_text(json.dumps(found, indent=1) + "\n")
        if isinstance(found[name], list) and str(found[name][-1:]).startswith(("['AFTER", "['BROKE")):
            return SPENT
    return 0


def finishes(command: list[str]) -> bool:
    """Whether a child answered all that was left; one that hangs is stopped."""
    try:
        return subprocess.run(command, check=False, timeout=TIME_LIMIT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> None:
    """Ask everything and write the answers."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.probes", description="Record a GPU's answers.")
    parser.add_argument("folder", type=Path)
    kinds = ["semantics", "legality", "vocabulary", "details", "thunder_faults"]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--child", action="store_true", help="answer in this process, until it can ask no more")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU: torch.cuda.is_available() says no; run this where there is one")
    options.folder.mkdir(parents=True, exist_ok=True)
    gpu = torch.cuda.get_device_name().split()[-1].lower()
    version = ".".join(torch.__version__.split(".")[:2])
    for kind in options.kinds:
        path = options.folder / f"{kind}_{gpu}_torch{version}.json"
        if options.child:
            sys.exit(answer(kind, path))
        command = [sys.executable, "-m", "tests.golden.probes", str(options.folder), "--child", "--kinds", kind]
        while not finishes(command):
            print(f"{path}: a new process goes on", flush=True)


if __name__ == "__main__":
    main()
