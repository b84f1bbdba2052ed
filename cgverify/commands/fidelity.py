"""``cgverify fidelity``: compare the emulation with answers recorded on a real device."""

from __future__ import annotations

import sys

from cgverify.commands.options import CommandError


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
