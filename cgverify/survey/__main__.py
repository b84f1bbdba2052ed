"""Prints the survey: `python -m cgverify.survey [--device auto|emulated|cuda] [--names NAME ...]`.

The exit code is 0 if no pass is wrong but for those that are known (`KNOWN_FAULTS`), else 1.
"""

from __future__ import annotations

import argparse
import sys
import warnings

from cgverify.checking import DEVICES, open_device
from cgverify.survey.corpus import CORPUS
from cgverify.survey.running import KNOWN_FAULTS, Surveyed, survey


def main(arguments: list[str] | None = None) -> int:
    """Surveys the corpus and prints what is not proved."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.survey", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=DEVICES, default="auto", help="where cuda tensors live")
    parser.add_argument("--names", nargs="+", default=None, help="only these entries")
    chosen = parser.parse_args(arguments)
    found: list[Surveyed] = []
    with warnings.catch_warnings(), open_device(chosen.device) as device:
        warnings.simplefilter("ignore")  # Thunder asks torch for shapes on fake tensors, which warns on some versions
        for entry in CORPUS:
            if chosen.names is None or entry.name in chosen.names:
                found.append(survey(entry))
                print(found[-1].render(), flush=True)
    steps = [check for surveyed in found for check in surveyed.passes]
    proved = sum(check.proved for check in steps)
    wrong = {surveyed.name for surveyed in found if not surveyed.ok}
    print(f"{proved} of {len(steps)} steps proved ({proved / max(1, len(steps)):.1%}) on {device}")
    return 1 if wrong - set(KNOWN_FAULTS) else 0


if __name__ == "__main__":
    sys.exit(main())
