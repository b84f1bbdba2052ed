"""CG107: texts that do not compile, or call what nobody gave them."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.cases.build import Pair, bad, chain, fuse, good


@good
def text_compiles() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@bad("CG107 computation:2")
def bracket_lost() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_source(after, site, site.called.source.replace("return (", "return ((", 1))


@bad("CG103 computation:2", "CG107 computation:2", "CG302 computation:2")
def callable_lost() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    call = after.bound_symbols[2]
    return before, edits.replaced(after, 2, call.from_bsym(_call_ctx={}))


@bad("CG107 computation:2")
def function_has_another_name() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_source(after, site, site.called.source.replace("def CUDAGraph0", "def CUDAGraph9"))
