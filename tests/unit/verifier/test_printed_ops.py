"""What runs is what a symbol prints, outside regions too."""

from __future__ import annotations

from typing import Any

from cgverify import CUDAGraphTransform, verify
from cgverify.fuzzing import edits
from tests.builders import TraceBuilder

from thunder.core.symbol import Symbol


def test_an_op_that_prints_as_another_is_another() -> None:
    """A left-out op keeps name and id, but prints, and so executes, an addition: the rewrite is not proved."""
    build = TraceBuilder("x")
    number = build.op("item", build.op("sum", build["x"], None, False, dtype=None))
    before = build.done(build.op("pow", build["x"], number))
    after = CUDAGraphTransform(verify=False).rewrite(before)
    assert verify(before, after).ok
    position, product = next((k, bsym) for k, bsym in enumerate(after.bound_symbols) if bsym.sym.name == "pow")

    def addition(bsym: Any, *_: Any, **__: Any) -> list[str]:
        return [f"{bsym.output.name} = torch.add({bsym.args[0].name}, {bsym.args[1].name})"]

    symbol = product.sym
    printed = Symbol(symbol.name, symbol.meta, symbol.id, executor=symbol.executor, python_printer=addition)
    forged = edits.replaced(after, position, product.from_bsym(sym=printed))
    report = verify(before, forged)
    assert not report.ok
    assert "CG501" in report.codes
