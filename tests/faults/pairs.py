"""One function jitted twice, with graphs and without: the same calls from the same state must end in the same state."""

from __future__ import annotations

import contextlib
import copy
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.runtime.guards import Refusal

import thunder
import torch
from thunder.extend import OperatorExecutor
from torch import nn

CALLS = 4
"""Un-graphed, captured and replayed, replayed, replayed with new values."""

_executors = itertools.count()


def randn(*shape: int, **options: Any) -> torch.Tensor:
    """Normally distributed numbers on the device."""
    return torch.randn(shape, device="cuda", **options)


class Pair:
    """`fn` jitted with graphs and without.

    Args:
        fn: a function, or a module, which is copied so that each side has a state of its own.
        jit: options of `thunder.jit` for both sides.
        transform: a transform shared with other pairs; a new one with `options` by default.

    Attributes:
        graphed: the side with graphs.
        plain: the yardstick.
        transform: the transform of the graphed side.
    """

    def __init__(
        self,
        fn: Any,
        *,
        jit: dict[str, Any] | None = None,
        transform: CUDAGraphTransform | None = None,
        **options: Any,
    ) -> None:
        self.transform = transform or CUDAGraphTransform(**options)
        other = copy.deepcopy(fn) if isinstance(fn, nn.Module) else fn
        self.graphed = thunder.jit(fn, transforms=[self.transform], **(jit or {}))
        self.plain = thunder.jit(other, **(jit or {}))

    @property
    def sides(self) -> tuple[Any, Any]:
        """Both jitted functions, the graphed one first."""
        return self.graphed, self.plain

    def agree(self, make: Callable[[], tuple[Any, ...]], seed: int = 0) -> Any:
        """Calls both sides with arguments made from one seed; returns the graphed side's results.

        Results, arguments afterwards, which of them share memory, and the generator must be the same.
        """
        return self.do(lambda jitted: _call(jitted, *make()), seed)[0]

    def do(self, act: Callable[[Any], Any], seed: int = 0) -> Any:
        """Does the same with both sides from one seed, compares what comes out; returns the graphed side's."""
        outcomes = []
        for jitted in self.sides:
            torch.manual_seed(seed)
            outcomes.append((act(jitted), torch.cuda.get_rng_state()))
        assert_same(*outcomes)
        return outcomes[0][0]

    def ungraphed(self, refusal: Refusal) -> int:
        """Calls of regions that ran un-graphed for this reason."""
        return self.transform.stats().ungraphed.get(refusal.value, 0)

    @property
    def left_out(self) -> dict[str, str]:
        """Reasons of the ops left out of the regions, by symbol, over all traces."""
        return {left.symbol: left.reason for plan in self.transform.report().plans for left in plan.left_out}

    def assert_graphed(self, captures: int | None = None) -> None:
        """The graphed side did replay graphs, and gave up none; it took `captures` of them."""
        stats = self.transform.stats()
        assert stats.replays > 0
        assert self.ungraphed(Refusal.CAPTURE_FAILED) == 0
        assert captures is None or stats.captures == captures


def _call(jitted: Any, *args: Any) -> tuple[Any, Any]:
    """The results of one call, and the arguments after it."""
    return jitted(*args), args


def step(jitted: Any, *args: Any, loss: Callable[[Any], torch.Tensor] | None = None) -> tuple[Any, ...]:
    """One forward and backward: results, then gradients of the arguments and of the module's parameters."""
    results = jitted(*args)
    (torch.as_tensor(results).square().sum() if loss is None else loss(results)).backward()
    return detached(results), gradients(jitted, *args)


def gradients(jitted: Any, *args: Any) -> list[torch.Tensor | None]:
    """Gradients of the arguments and of the module's parameters, taken away from them."""
    leaves = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.is_leaf]
    leaves += list(jitted.parameters()) if isinstance(jitted, nn.Module) else []
    found = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return found


def detached(results: Any) -> Any:
    """The results without their autograd history."""
    if isinstance(results, (tuple, list)):
        return tuple(map(detached, results))
    return results.detach() if isinstance(results, torch.Tensor) else results


def assert_same(one: Any, other: Any) -> None:
    """Equal bits, dtype, shape, strides and requires_grad through containers, and the same sharing of memory."""
    pairs = list(_flatten(one, other))
    for left, right in pairs:
        assert (left.dtype, left.shape, left.stride()) == (right.dtype, right.shape, right.stride())
        assert (left.device, left.requires_grad) == (right.device, right.requires_grad)
        assert torch.equal(_bits(left), _bits(right)), f"{left} is not {right}"
    assert _sharing(left for left, _ in pairs) == _sharing(right for _, right in pairs)


def _flatten(one: Any, other: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = tuple(one.values()), tuple(other.values())
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            yield from _flatten(left, right)
    elif isinstance(one, torch.Tensor):
        yield one, other
    else:
        assert type(one) is type(other) and (one == other or one != one)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _sharing(tensors: Iterator[torch.Tensor]) -> list[int]:
    """For each tensor with memory, the position of the first one in the same storage."""
    addresses = [tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()]
    return [addresses.index(address) for address in addresses]


@contextlib.contextmanager
def warnings_of_the_transform() -> Iterator[list[str]]:
    """Collects what the transform warns of, each time."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        yield said
    said += [str(warning.message) for warning in caught if issubclass(warning.category, RuntimeWarning)]


def operator(fn: Callable[..., Any], meta: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """`fn` as an op that Thunder traces as it is, and the options of `thunder.jit` that make it known.

    Args:
        fn: what runs.
        meta: gives the proxies of its results.
    """
    executor = OperatorExecutor(f"faults{next(_executors)}", version="0")
    symbol = executor.register_operator(fn.__name__, meta=meta, fn=fn)
    return symbol, {"executors": [executor, *thunder.get_default_executors()]}
