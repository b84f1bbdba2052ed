"""Runs the command line as ``python -m cgverify``."""

from __future__ import annotations

from cgverify.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
