"""Structure: names, deletions, signatures, texts. What must hold before values can be compared at all."""

from __future__ import annotations

from cgverify.verifier.rules.structure import bodies, interface, names, signatures, texts

__all__ = ["bodies", "interface", "names", "signatures", "texts"]
