"""Lets an op read the 0-d tensor behind a Python number, where that gives the same bits.

`f = t.item()` waits for the device, and an op on `f` would have to wait with it. But for a few ops and equal dtypes,
`mul(a, f)` and `mul(a, t)` are one computation: `t`'s value is exact as a Python number, both forms compute in the
dtype of `a`, and round once. Such an op is *fed* `t` instead of `f`, and then depends on nothing that the host knows,
so it can be captured. `item` itself stays, unread or not: no op is dropped, and the host waits where it waited.

Facts: for each op, which numbers among its arguments are replaced by which tensors. Direction: one forward walk.
Transfer rule: `item` of a 0-d tensor on a CUDA device makes a number that the tensor can stand for, until memory that
may be the tensor's is written, or an op of unknown effects runs.

Sources: torch's CUDA kernels take a Python number as a scalar in the type they compute in, or load it from a 0-d
tensor and convert it to that type; `tests/unit/test_device_scalars.py` runs both and compares bits. Left out on
purpose: division (torch multiplies by the reciprocal of a number), `pow` (special cases by number), `where` and `clamp`
(they hand a NaN's payload through, and `item` may quiet it), arithmetic in float64 (of two NaNs a GPU hands one payload
on, and which one depends on the form), everything on `bool` and complex numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cgverify.ir import Op, OpIndex, OpKind, TraceView, view_trace
from cgverify.plan import DeviceScalar
from cgverify.transform.aliases import AliasSets
from cgverify.transform.effects import Effects

from thunder.core import devices, dtypes
from thunder.core.proxies import NumberProxy, TensorProxy, variableify
from thunder.core.trace import from_trace
from thunder.executors import torchex

ARITHMETIC: Mapping[str, tuple[int, ...]] = {"mul": (0, 1), "add": (0, 1), "sub": (0, 1)}
"""Ops of two operands with a result of their dtype -> positions at which torch takes a number."""

COMPARISONS: Mapping[str, tuple[int, ...]] = dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (1,))
"""Ops of two operands with a `bool` result, likewise: torch refuses a number on the left."""

EXACT: dict[str, tuple[int, ...]] = {**ARITHMETIC, **COMPARISONS}

DTYPES = (
    *(dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64),
    *(dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
)
"""Dtypes whose every value a Python number holds exactly; float64 is for comparisons alone."""


def has_device_numbers(view: TraceView) -> bool:
    """Whether the host reads a 0-d tensor anywhere, so that there may be something to choose."""
    return any(_read_by_item(op) is not None for op in view.ops)


def choose_scalars(view: TraceView, effects: Sequence[Effects], aliases: AliasSets) -> tuple[DeviceScalar, ...]:
    """The numbers to replace, by op; linear in the length of the trace."""
    behind: dict[str, tuple[TensorProxy, OpIndex]] = {}  # number -> the tensor it was read from, and where
    written: dict[str, OpIndex] = {}  # alias class -> its last write
    chosen: list[DeviceScalar] = []
    for op in view.ops:
        if op.kind is not OpKind.COMPUTE:
            continue
        for number in op.reads if op.id in EXACT else ():
            tensor, read_at = behind.get(number, (None, OpIndex(-1)))
            if tensor is None or written.get(aliases.representative(tensor.name), -1) > read_at:
                continue
            if _is_exact(op, number, tensor):
                chosen.append(DeviceScalar(op.index, op.name, number, tensor.name, op.source))
        if (source := _read_by_item(op)) is not None:
            behind[op.outputs[0]] = (source, op.index)
        if effects[op.index].opaque:
            behind.clear()
        written.update((aliases.representative(name), op.index) for name in effects[op.index].writes)
    return tuple(chosen)


def feed_scalars(view: TraceView, scalars: Sequence[DeviceScalar]) -> TraceView:
    """The trace with the chosen arguments replaced, op by op at the same places; `view` itself if there are none."""
    if not scalars:
        return view
    bsyms = [op.bsym for op in view.ops]
    for scalar in scalars:
        swap = {variableify(view.values[scalar.number]): view.values[scalar.tensor]}
        bsyms[scalar.op] = bsyms[scalar.op].from_bsym_swap_proxies(swap, skip_output=True)
    trace = from_trace(view.trace)
    trace.bound_symbols = bsyms
    return view_trace(trace)


def _read_by_item(op: Op) -> TensorProxy | None:
    """The 0-d CUDA tensor whose value the op hands to the host, if that is what it does."""
    if op.id != "item" or not _is_torchs_own(op) or len(op.outputs) != 1:
        return None
    tensor = op.bsym.args[0]
    if not isinstance(tensor, TensorProxy) or tensor.ndim or tensor.device.devicetype is not devices.DeviceType.CUDA:
        return None
    return tensor


def _is_exact(op: Op, number: str, tensor: TensorProxy) -> bool:
    """Whether the op computes the same bits from the tensor as from the number, in the same dtype."""
    arguments = op.bsym.args
    if not _is_torchs_own(op) or len(arguments) != 2 or not _is_plain(op.bsym.kwargs):
        return False
    position = next((k for k, argument in enumerate(arguments) if isinstance(argument, NumberProxy)), -1)
    other, result = arguments[1 - position], op.bsym.output
    if position not in EXACT[str(op.id)] or arguments[position].name != number or type(other) is not TensorProxy:
        return False
    dtype = dtypes.to_strong_dtype(tensor.dtype)
    expected = dtype if op.id in ARITHMETIC else dtypes.bool8
    return (
        dtype in DTYPES
        and (dtype is not dtypes.float64 or op.id in COMPARISONS)
        and dtypes.to_strong_dtype(other.dtype) is dtype
        and dtypes.to_strong_dtype(result.dtype) is expected
        and other.device == tensor.device
    )


def _is_torchs_own(op: Op) -> bool:
    """Whether the op runs torch's function of that name: somebody else's `mul` may be anything."""
    return torchex.ex.opmap.get(str(op.id)) is op.bsym.sym


def _is_plain(options: Mapping[str, object]) -> bool:
    """Whether there are no options but the factor 1 that Thunder spells out."""
    return all(key == "alpha" and isinstance(value, (int, float)) and value == 1 for key, value in options.items())
