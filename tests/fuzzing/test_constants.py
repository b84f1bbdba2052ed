"""What is drawn depends on seed and strategy alone."""

from __future__ import annotations

import subprocess
import sys

DRAW = """
{imports}
import cgverify
from cgverify.fuzzing.throughput import draw_programs
from cgverify.fuzzing.program import encode_program
import hashlib
print(hashlib.sha256("".join(map(encode_program, draw_programs(30))).encode()).hexdigest())
"""


def test_programs_do_not_depend_on_what_is_imported() -> None:
    """The same seed draws the same programs with and without the command line and these tests loaded."""

    def draw(imports: str) -> str:
        script = DRAW.format(imports=imports)
        run = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
        return run.stdout

    assert draw("") == draw("import cgverify.cli, cgverify.report.partition, tests.builders")
