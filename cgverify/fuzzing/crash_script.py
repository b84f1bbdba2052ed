"""Makes the reproducer of a crash or a hang report it: the script runs its own body in a process of its own."""

from __future__ import annotations

from cgverify.fuzzing.invariants import Crash, Hang

DEADLY = (Crash.name, Hang.name)
"""Invariants whose reproducer does not live to report."""

_GUARD = """import subprocess
import sys

if "--inside" not in sys.argv:
    try:
        done = subprocess.run([sys.executable, __file__, "--inside"], timeout=120, check=False)
    except subprocess.TimeoutExpired:
        print("REPRODUCED: no end within 120 seconds")
        sys.exit(1)
    if done.returncode < 0:
        print(f"REPRODUCED: the process dies of signal {-done.returncode}")
        sys.exit(1)
    sys.exit(done.returncode)
"""

UNTOLD = """import sys

print("cannot run here: nothing was made of a program that ends the fuzzer; give the one beside to cgverify reproduce")
sys.exit(2)
"""
"""The reproducer of a program that nothing but a death is known of."""


def guard_script(script: str) -> str:
    """Return the script with a guard between its docstring and its imports.

    It exits with 1 if its body dies of a signal or takes longer than two minutes, and as its body does otherwise.
    """
    heading, end, body = script.partition('\n"""\n')
    return f"{heading}{end}\n{_GUARD}{body}"
