"""Record what this machine's GPU answers: `python -m tests.golden.probes FOLDER`, from the project's root.

Writes three JSON files named like those in tests/golden; takes about two minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.golden.probes import addresses, semantics
from tests.golden.probes.legality import SNIPPETS

import torch


def main(folder: Path) -> None:
    """Ask everything and write the answers."""
    if not torch.cuda.is_available():
        raise SystemExit("no GPU: torch.cuda.is_available() says no; run this where there is one")
    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    gpu = torch.cuda.get_device_name().split()[-1].lower()
    label = f"{gpu}_torch{'.'.join(torch.__version__.split('.')[:2])}.json"
    write(folder / f"thunder_faults_{label}", {"n": in_child("thunder_scenarios")})
    answers = {"torch": torch.__version__, "semantics": semantics.answers(), "addresses": addresses.answers()}
    write(folder / f"semantics_{label}", answers)
    record_legality(folder / f"legality_{label}")


def in_child(name: str) -> Any:
    """Return the answers of the Thunder scenarios from a process of their own: they leave the generator unusable."""
    program = f"import json; from tests.golden.probes import {name}; print(json.dumps({name}.answers()))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def record_legality(path: Path) -> None:
    """Ask in child processes: a snippet can leave its process unable to capture."""
    for _attempt in SNIPPETS:
        command = [sys.executable, "-W", "ignore", "-m", "tests.golden.probes.legality", str(path)]
        if subprocess.run(command, check=False).returncode == 0:
            return
    raise SystemExit(f"{path}: the snippets were not answered in {len(SNIPPETS)} processes")


def write(path: Path, answers: Any) -> None:
    """Write JSON, one space of indent."""
    path.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
