"""A region as the verifier sees it: the call, the callable, what that executes, and what its plan claims."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cgverify.ir import Op, OpKind, TraceView
from cgverify.plan import Region as RegionClaim
from cgverify.verifier.text import Text, parse_text


@dataclass(frozen=True, eq=False)
class Region:
    """A fusion symbol whose ops are judged one by one: by its body, or by its subsymbols where it has none.

    Attributes:
        op: the bound symbol in the trace after.
        called: the Python object that is called; None if the symbol brings none.
        body: the trace whose text the callable executes, if it says so.
        source: that text.
        claim: the transform's plan for the region.
    """

    op: Op
    called: object | None
    body: TraceView | None
    source: str | None
    claim: RegionClaim | None

    @property
    def name(self) -> str:
        """The symbol's name."""
        return self.op.name

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names passed to the call, in order, repeats kept."""
        return tuple(proxy.name for proxy in self.op.bsym.flat_proxy_args)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names bound to the results, in order."""
        return tuple(proxy.name for proxy in self.op.bsym.flat_proxy_outs)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names the body gives to the arguments."""
        return self.arguments if self.body is None else self.body.parameters

    @property
    def results(self) -> tuple[str, ...]:
        """Names the body returns."""
        return self.outputs if self.body is None else self.body.returned

    @property
    def ops(self) -> tuple[Op, ...]:
        """What runs: the body's ops, or the subsymbols."""
        return self.op.children if self.body is None else self.body.ops

    @cached_property
    def text(self) -> Text | None:
        """The text its callable executes, parsed; None if it does not say."""
        if self.source is None or self.body is None:
            return None
        return parse_text(self.source, self.body.name)

    @cached_property
    def computing(self) -> tuple[Op, ...]:
        """Those of `ops` that compute."""
        return tuple(op for op in self.ops if op.kind is OpKind.COMPUTE)
