"""Types of the values in a program, and the rules that give an operation's result its type.

The fuzzer knows every value's shape, dtype, device and storage before anything runs, so that a program is valid by
construction and a strategy never touches torch. The rules restate torch's own (broadcasting, type promotion) in plain
Python; a test compares them with torch for every operation of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

Shape = tuple[int, ...]
Device = Literal["cuda", "cpu"]

FLOATS = ("f32", "f64", "f16", "bf16")
WIDE_FLOATS = ("f32", "f64")
INTEGERS = ("i64", "i32", "u8")
NUMERIC = FLOATS + INTEGERS
SIGNED = (*FLOATS, "i64", "i32")
DTYPES = (*NUMERIC, "bool")

TORCH_DTYPES = {
    "f32": "torch.float32",
    "f64": "torch.float64",
    "f16": "torch.float16",
    "bf16": "torch.bfloat16",
    "i64": "torch.int64",
    "i32": "torch.int32",
    "u8": "torch.uint8",
    "bool": "torch.bool",
}

# The largest n such that every integer of magnitude up to n is representable.
EXACT_LIMIT = {
    "f32": 2.0**24,
    "f64": 2.0**53,
    "f16": 2.0**11,
    "bf16": 2.0**8,
    "i64": 2.0**62,
    "i32": 2.0**31 - 1,
    "u8": 0.0,  # a negative number wraps around, and a bound is a magnitude
    "bool": 1.0,
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before it exists.

    Attributes:
        shape: its sizes.
        dtype: one of :data:`DTYPES`.
        device: ``"cuda"`` (whatever plays that part) or ``"cpu"``.
        storage: number of the storage class; two tensors of one class may share memory.
        writable: whether an in-place write is defined, which it is not where elements overlap.
        needs_grad: whether autograd tracks it.
        bound: every element is an integer of at most this magnitude and exactly representable; None if not known.
        fragile: whether a rounding error may change it by more than its size (a comparison, a floor, an argmax before
            it).
        drawn: whether a random draw reaches it.
    """

    shape: Shape
    dtype: str
    device: Device
    storage: int
    writable: bool = True
    needs_grad: bool = False
    bound: float | None = None
    fragile: bool = False
    drawn: bool = False

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating point numbers."""
        return self.dtype in FLOATS


@dataclass(frozen=True, slots=True)
class NumberType:
    """What is known of a Python number that the program reads from a tensor.

    Attributes:
        kind: ``"float"`` or ``"int"``.
        bound: as for a tensor.
        fragile: as for a tensor.
        drawn: as for a tensor.
    """

    kind: Literal["float", "int"]
    bound: float | None = None
    fragile: bool = False
    drawn: bool = False


ValueType = TensorType | NumberType
Scalar = bool | int | float


def broadcast(*shapes: Shape) -> Shape | None:
    """Return the shape that all shapes broadcast to, or None if they do not broadcast."""
    rank = max(map(len, shapes))
    sizes = []
    for column in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {size for size in column if size != 1}
        if len(wide) > 1:
            return None
        sizes.append(wide.pop() if wide else 1)
    return tuple(sizes)


def promote(*operands: ValueType | Scalar) -> str:
    """Return the dtype that torch computes with, given tensors, number values and literals.

    Source: torch's ``result_type``: tensors with dimensions decide, unless a 0-d tensor, or after that a number, is
        of a
    higher category (bool, integer, float).
    """
    ranked = [v.dtype for v in operands if isinstance(v, TensorType) and v.rank]
    scalars = [v.dtype for v in operands if isinstance(v, TensorType) and not v.rank]
    numbers = [_number_dtype(v) for v in operands if not isinstance(v, TensorType)]
    result: str | None = None
    for group in (numbers, scalars, ranked):
        for_group: str | None = None
        for dtype in group:
            for_group = dtype if for_group is None else _promote_pair(for_group, dtype)
        if for_group is not None:
            result = for_group if result is None else _combine(for_group, result)
    if result is None:
        raise ValueError("promote() needs at least one operand")
    return result


def exact(bound: float | None, dtype: str) -> float | None:
    """Return `bound` if every integer up to it is representable in `dtype`, else None."""
    return bound if bound is not None and bound <= EXACT_LIMIT[dtype] else None


def _number_dtype(value: NumberType | Scalar) -> str:
    kind = value.kind if isinstance(value, NumberType) else type(value).__name__
    return {"float": "f32", "int": "i64", "bool": "bool"}[kind]


def _category(dtype: str) -> int:
    return 2 if dtype in FLOATS else 1 if dtype in INTEGERS else 0


def _promote_pair(a: str, b: str) -> str:
    if a == b:
        return a
    if _category(a) != _category(b):
        return a if _category(a) > _category(b) else b
    if {a, b} == {"f16", "bf16"}:
        return "f32"
    return next(dtype for dtype in ("f64", "f32", "i64", "i32") if dtype in (a, b))


def _combine(higher: str, lower: str) -> str:
    """Combine the dtype of a group with that of the groups it outranks."""
    return lower if _category(lower) > _category(higher) else higher
