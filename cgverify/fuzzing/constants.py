"""Keeps draws the same wherever they are made: a seed and a strategy give the same programs in every process.

Hypothesis also draws numbers that stand in the source of every imported module outside site-packages. What a seed draws
would then depend on which commands, tests and modules of the user happen to be loaded: shards of one campaign would
disagree, and a gate would draw other programs after an unrelated edit.
"""

from __future__ import annotations

from hypothesis.internal.conjecture import providers


def ignore_constants_of_modules() -> None:
    """Makes Hypothesis draw no constants of imported modules, in this process; older versions never do."""
    if hasattr(providers, "_get_local_constants"):
        none = type(providers._local_constants)()
        providers._get_local_constants = lambda: none
        providers.CONSTANTS_CACHE.cache.clear()
