"""One call of an aten op, and walks over the tensors among its arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from cgverify.emulation.ops import OpInfo

import torch
from torch._subclasses.fake_tensor import FakeTensor

PLAIN = (torch.Tensor, torch.nn.Parameter)


class Call(NamedTuple):
    """An op with its arguments."""

    func: Any  # torch._ops.OpOverload
    info: OpInfo
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """Run the op."""
        return self.func(*self.args, **self.kwargs)

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments, in order."""
        found = list(tensors_in(self.args))
        if self.kwargs:
            found += tensors_in(self.kwargs.values())
        return found

    def argument(self, where: int | str | None) -> Any:
        """Return the argument at a position or of a name; None if it was not given."""
        if isinstance(where, int):
            return self.args[where] if where < len(self.args) else None
        return self.kwargs.get(where) if where is not None else None

    def changed(self, **changes: Any) -> Call:
        """Return the call with some keyword arguments changed."""
        return self._replace(kwargs={**self.kwargs, **changes})

    def mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
        """Return the call with each tensor replaced."""
        kwargs = {key: map_tensors(change, value) for key, value in self.kwargs.items()}
        return self._replace(args=map_tensors(change, self.args), kwargs=kwargs)


def is_faking() -> bool:
    """Whether a FakeTensorMode is in force: it gives its tensors any device by itself."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor only stands for one while somebody traces."""
    return type(tensor) not in PLAIN and isinstance(tensor, FakeTensor)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among values, lists and tuples of them."""
    for value in values:
        if type(value) in PLAIN or isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def map_tensors(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """Return the value with each tensor in it replaced."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map_tensors(change, item) for item in value)
    return value


def flat_results(result: Any) -> list[Any]:
    """Return the tensors and Nones of an op's result in order."""
    if isinstance(result, torch.Tensor) or result is None:
        return [result]
    found: list[Any] = []
    for value in result:
        found += flat_results(value)
    return found
