"""CG301: inputs read in place whose address nothing compares."""

from __future__ import annotations

from dataclasses import replace

from cgverify.verifier.contracts import CGVERIFY
from tests.cases.build import Pair, bad, chain, fuse, good, good_under

UNGUARDED = replace(CGVERIFY, name="unguarded", guards_addresses=False)


@good
def guarded() -> Pair:
    """Our runtime compares addresses, so any input may be read in place."""
    before = chain()
    return before, fuse(before, 2, 3, static={"x"})


@good_under(UNGUARDED)
def copied() -> Pair:
    before = chain()
    return before, fuse(before, 2, 3)


@bad("CG301 computation:2", contract=UNGUARDED)
def nothing_promises_it() -> Pair:
    before = chain()
    return before, fuse(before, 2, 3, static={"x"})
