"""A read-only view of a Thunder trace: its ops, its values, who defines them and who uses them.

A trace is a straight line of bound symbols. `view_trace` walks it once and answers, by name, what every pass needs: the
parameters, each op's reads and definitions, and what RETURN hands out. It passes no judgement: it knows the five
structural prims (parameter, unpack, DEL, RETURN, comment) and nothing about what any other op does.

Names are the identity of values, because names are all that the executed text has. Bound symbols compare by value in
Thunder, so everything here is keyed by position or by name, never by `==` on bound symbols.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, NewType

from thunder.core.dtypes import are_same_dtypes
from thunder.core.prims import PrimIDs
from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.pytree import tree_flatten
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, TraceTag, tracectx

OpIndex = NewType("OpIndex", int)


class OpKind(Enum):
    """What an op is in the structure of its trace."""

    PARAMETER = "parameter"  # unpack_trivial: names a parameter
    UNPACK = "unpack"  # unpack_sequence and friends: take a collection apart
    COMPUTE = "compute"  # everything that is executed for its result or its effect
    DEL = "del"
    RETURN = "return"
    COMMENT = "comment"


_KINDS: dict[Hashable, OpKind] = {
    PrimIDs.UNPACK_TRIVIAL: OpKind.PARAMETER,
    PrimIDs.UNPACK_SEQUENCE: OpKind.UNPACK,
    PrimIDs.DEL: OpKind.DEL,
    PrimIDs.RETURN: OpKind.RETURN,
    PrimIDs.COMMENT: OpKind.COMMENT,
}


@dataclass(frozen=True, eq=False)
class Op:
    """One bound symbol.

    Attributes:
        index: position in the trace, or in the parent's subsymbols.
        bsym: the bound symbol itself.
        kind: its structural kind.
        reads: names of the proxies among its arguments, without repeats, in order of appearance.
        outputs: names of the proxies it returns, without repeats, in order.
    """

    index: OpIndex
    bsym: BoundSymbol
    kind: OpKind
    reads: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def defines(self) -> tuple[str, ...]:
        """The outputs that are new names: an op may return one of its own arguments."""
        if not self.reads:
            return self.outputs
        return tuple(name for name in self.outputs if name not in self.reads)

    @property
    def name(self) -> str:
        """The symbol's name, as printed without its module."""
        return str(self.bsym.sym.name)

    @property
    def id(self) -> Hashable:
        """The symbol's id: a `PrimIDs` member, a string, or None for fusions."""
        identifier: Hashable = self.bsym.sym.id
        return identifier

    @property
    def executor(self) -> str | None:
        """Name of the executor that claimed the op, None where nobody did."""
        executor = self.bsym.sym.executor
        # Thunder's own graph transform names itself as the executor of its regions, and has no name.
        return None if executor is None else str(getattr(executor, "name", type(executor).__name__))

    @property
    def is_fusion(self) -> bool:
        """Whether the symbol stands for a compiled group of ops."""
        return bool(self.bsym.sym.is_fusion)

    @property
    def source(self) -> str | None:
        """`file:line` of the user's code, None where Thunder recorded none."""
        positions = self.bsym.source_positions
        if self.bsym.source_filename is None or positions is None:
            return None
        line = getattr(positions, "lineno", positions)
        return f"{self.bsym.source_filename}:{line}"

    @cached_property
    def children(self) -> tuple[Op, ...]:
        """The ops this one stands for: its subsymbols."""
        return tuple(view_op(sub, index) for index, sub in enumerate(self.bsym.subsymbols))

    def proxies(self) -> Iterator[Proxy]:
        """Every proxy among the arguments and results, repeats included."""
        yield from self.bsym.flat_proxy_args
        yield from self.bsym.flat_proxy_outs


@dataclass(frozen=True, eq=False)
class TraceView:
    """A trace, indexed.

    Attributes:
        trace: the trace looked at.
        name: name of the generated function (`computation`, `backward_fn`).
        parameters: the function's parameters, in order; some have no op (Thunder drops unused ones).
        ops: one per bound symbol, in order.
        values: every proxy of the trace by name.
        definitions: name -> index of the op that defines it; parameters map to the op that names them, or -1.
        uses: name -> indices of the ops that read it, in order, DEL excluded.
        returned: names handed out by RETURN, flat and in order, repeats kept.
    """

    trace: TraceCtx
    name: str
    parameters: tuple[str, ...]
    ops: tuple[Op, ...]
    values: dict[str, Proxy]
    definitions: dict[str, int]
    uses: dict[str, tuple[int, ...]]
    returned: tuple[str, ...]

    @cached_property
    def return_op(self) -> Op | None:
        """The RETURN, wherever it stands; None in a trace without one."""
        return next((op for op in reversed(self.ops) if op.kind is OpKind.RETURN), None)

    @cached_property
    def handed_out(self) -> frozenset[str]:
        """Names that the caller gets: of a forward trace what stands beside the values saved for the backward."""
        args: tuple[Any, ...] = () if self.return_op is None else self.return_op.bsym.args
        if len(args) == 2 and isinstance(args[0], dict) and "flat_args" in args[0]:
            return frozenset(flat_names(args[0]))
        return frozenset(self.returned)

    def text(self, op: Op) -> str:
        """The op's first line as the trace prints it (cut to 160 characters)."""
        return op_text(self.trace, op.bsym)


@dataclass
class _Walk:
    """Facts gathered while walking a trace once."""

    values: dict[str, Proxy] = field(default_factory=dict)
    definitions: dict[str, int] = field(default_factory=dict)
    uses: dict[str, list[int]] = field(default_factory=dict)

    def visit(self, op: Op) -> None:
        for proxy in op.proxies():
            self.values.setdefault(proxy.name, proxy)
        if op.kind is OpKind.DEL:
            return
        if op.kind is not OpKind.PARAMETER:
            for name in op.reads:
                self.uses.setdefault(name, []).append(op.index)
        for name in op.defines:
            self.definitions.setdefault(name, op.index)


def view_op(bsym: BoundSymbol, index: int) -> Op:
    """Looks at one bound symbol, standing at `index`."""
    reads = tuple(dict.fromkeys(proxy.name for proxy in bsym.flat_proxy_args))
    outputs = tuple(dict.fromkeys(proxy.name for proxy in bsym.flat_proxy_outs))
    return Op(OpIndex(index), bsym, _KINDS.get(bsym.sym.id, OpKind.COMPUTE), reads, outputs)


def view_trace(trace: TraceCtx) -> TraceView:
    """Indexes `trace` in one pass, linear in its length.

    Raises:
        TypeError: `trace` is not a Thunder trace.
    """
    if not isinstance(trace, TraceCtx):
        raise TypeError(
            f"expected a Thunder trace (thunder.core.trace.TraceCtx), got {type(trace).__name__}: "
            "pass for example thunder.last_traces(jitted)[-1]"
        )
    signature = trace.siginfo()
    parameters = tuple(name for name, _ in signature.args)
    walk = _Walk(definitions=dict.fromkeys(parameters, -1))
    ops = tuple(view_op(bsym, index) for index, bsym in enumerate(trace.bound_symbols))
    returned: tuple[str, ...] = ()
    for op in ops:
        walk.visit(op)
        if op.kind is OpKind.PARAMETER:
            walk.definitions.update(dict.fromkeys(op.outputs, op.index))
        elif op.kind is OpKind.RETURN:
            returned = tuple(proxy.name for proxy in op.bsym.flat_proxy_args)
    uses = {name: tuple(indices) for name, indices in walk.uses.items()}
    return TraceView(trace, str(signature.name), parameters, ops, walk.values, walk.definitions, uses, returned)


def op_text(trace: TraceCtx, bsym: BoundSymbol, limit: int = 160) -> str:
    """The first printed line of `bsym`, comments and nesting left out, at most `limit` characters."""
    with tracectx(trace):
        lines = bsym.python(indent=0, print_depth=1)
    line = next(
        (line.strip() for line in lines if line.strip() and not line.strip().startswith("#")), str(bsym.sym.name)
    )
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_backward(trace: TraceCtx) -> bool:
    """Whether the trace is a backward trace: tagged so, or taking lists of saved tensors and cotangents apart."""
    return TraceTag.BACKWARD in trace.tags or any(b.sym.id is PrimIDs.UNPACK_SEQUENCE for b in trace.bound_symbols)


def flat_names(tree: Any) -> tuple[str, ...]:
    """Names of the proxies in a nest of tuples, lists and dicts, in order, repeats kept."""
    leaves, _ = tree_flatten(tree)
    return tuple(leaf.name for leaf in leaves if isinstance(leaf, Proxy))


def is_tensor(proxy: Proxy | None) -> bool:
    """Whether the proxy stands for a tensor."""
    return isinstance(proxy, TensorProxy)


def is_of_another_dtype(one: Proxy, other: Proxy) -> bool:
    """Whether both stand for tensors and their elements are of different types; weak and strong are the same."""
    if not (isinstance(one, TensorProxy) and isinstance(other, TensorProxy)):
        return False
    return not are_same_dtypes(one.dtype, other.dtype)
