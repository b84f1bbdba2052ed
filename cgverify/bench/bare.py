"""A raw CUDA graph: grouped copy-in, replay, grouped clone-out, and no check of anything.

It is the floor: what the copies and the launch cost at least, for a body whose results the caller may keep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch

FEW = 2
"""Up to how many results single clones are cheaper than allocating and one grouped copy."""


class BareGraph:
    """A graph of one call of `body`; call it with as many tensors of the same layouts.

    Args:
        body: what to capture; it runs once before, so that its kernels are loaded, and writes none of its inputs.
        inputs: what it is captured on.
        in_place: positions of inputs that are read where they lie; every other is copied in on each call.
    """

    def __init__(
        self, body: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], in_place: Collection[int]
    ) -> None:
        self._body = body  # may own memory that the graph reads
        self._copied = [k for k in range(len(inputs)) if k not in in_place]
        with torch.no_grad():
            static = [tensor if k in in_place else tensor.clone() for k, tensor in enumerate(inputs)]
            self._static = static
            self._sinks = [static[k] for k in self._copied]
            body(*static)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._results = list(body(*static))
        owned = {tensor.untyped_storage().data_ptr() for tensor in static}
        self._fresh = [k for k, r in enumerate(self._results) if r.untyped_storage().data_ptr() not in owned]
        self._sources = [self._results[k] for k in self._fresh]

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The body's results; in memory of the caller's own, but for those that lie in an input's."""
        sources = inputs if len(self._sinks) == len(inputs) else [inputs[k] for k in self._copied]
        if self._sinks:
            torch._foreach_copy_(self._sinks, sources)
        self._graph.replay()
        if len(self._sources) <= FEW:
            fresh = [source.clone() for source in self._sources]
        else:
            fresh = [torch.empty_like(source) for source in self._sources]
            torch._foreach_copy_(fresh, self._sources)
        if len(fresh) == len(self._results):
            return fresh
        results = list(self._results)
        for k, tensor in zip(self._fresh, fresh, strict=True):
            results[k] = tensor
        return results
