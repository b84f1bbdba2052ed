"""Memory: who owns what a region reads and returns, as far as traces and contract decide it."""

from __future__ import annotations

from cgverify.verifier.rules.memory import inputs, results, saved

__all__ = ["inputs", "results", "saved"]
