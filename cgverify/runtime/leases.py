"""Leases: results that stay in graph memory for as long as somebody holds them, and who may replay meanwhile.

A value that the caller never gets, such as a tensor saved for the backward, need not be copied out of graph memory and
into it again. The graph keeps the tensor of its capture, and each replay hands out a new tensor on the same storage: a
*lease*. A lease is out while its storage has other owners than the graph. Autograd saves the storage, not the Python
object, and a view owns it too, so the storage tells the truth whoever holds what.

Graphs of a pool are numbered in the order of their captures. The memory of a kept tensor is taken from the capture on,
as long as graph or lease lives: a later capture cannot get it, an earlier one may have used it as scratch memory. So a
replay may overwrite the leases of its own graph and of graphs captured after it, and no others.

While hooks take what autograd saves, the results are copies: a hook may read them on a stream that never got a lease.
Not covered: such a read by somebody who fetched a saved tensor from the autograd graph and has let go of it before the
read is done. `record_stream` does not help: it defers only what the allocator frees, and the graph frees nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cgverify.runtime.cache import EntryKey

import torch
from torch.multiprocessing.reductions import StorageWeakRef


@dataclass(slots=True)
class Lending:
    """What a region has learnt about leases.

    Attributes:
        allowed: whether its graphs keep results and lend them.
        renewals: how many of its graphs gave way to younger ones because leases of others were in their way.
    """

    allowed: bool = True
    renewals: int = 0


class Lender:
    """One graph's kept results. It outlives the graph in the pool's list while a lease is out.

    Args:
        key: the entry of the graph.
        lending: of the graph's region.
    """

    def __init__(self, key: EntryKey, lending: Lending) -> None:
        self.key = key
        self.lending = lending
        self.serial = 0
        self.kept: list[torch.Tensor] = []
        self._storages: list[torch.UntypedStorage] = []
        self._weak: list[StorageWeakRef] = []
        self._addresses: list[int] = []
        self._own = 0

    def open(self, serial: int, kept: Sequence[torch.Tensor]) -> None:
        """Begins to lend.

        Args:
            serial: the place of the graph's capture among those of its pool.
            kept: results of the capture, each alone in its storage, without other owners of that.
        """
        self.serial = serial
        self.kept = list(kept)
        self._storages = [tensor.untyped_storage() for tensor in kept]
        self._weak = [StorageWeakRef(storage) for storage in self._storages]
        self._addresses = [storage.cdata for storage in self._weak]
        self._own = len(self.kept) * _owners_of_a_kept_tensor()

    def lend(self) -> list[torch.Tensor]:
        """New tensors on the kept storages, or copies of them while hooks take what autograd saves."""
        if _hooks_on_saved_tensors(True) is not None:
            return [_copy(tensor) for tensor in self.kept]
        return [tensor.detach() for tensor in self.kept]

    def is_out(self) -> bool:
        """Whether somebody but the graph owns one of the storages."""
        return _owners(self._addresses, self._storages) > self._own

    def keeps(self, storage: int) -> bool:
        """Whether the storage at this address is one of the kept ones of a graph that is alive."""
        return any(tensor.data_ptr() == storage for tensor in self._storages)

    def close(self) -> None:
        """Lets go of the memory: it goes back to the pool with the last lease."""
        self.kept, self._storages, self._own = [], [], 0


def find_blocker(lenders: Sequence[Lender], serial: int) -> Lender | None:
    """The lender whose leases the replay of a graph would overwrite, the youngest one; None if there is none.

    Args:
        lenders: of the graph's pool, oldest first.
        serial: the graph's.
    """
    for lender in lenders[::-1]:  # a copy: a garbage collection on the way may drop a graph, and prune
        if lender.serial < serial:
            return None
        if lender.is_out():
            return lender
    return None


def prune(lenders: list[Lender]) -> None:
    """Forgets lenders whose graph is closed and whose leases are all back."""
    lenders[:] = [lender for lender in lenders[:] if lender.kept or lender.is_out()]  # a copy, as above


_hooks_on_saved_tensors = torch._C._autograd._top_saved_tensors_default_hooks


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    # not clone: it does not keep the strides of every layout
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _owners(addresses: Iterable[int], storages: Iterable[torch.UntypedStorage]) -> int:
    """Owners of storages in C++, and references to their Python objects, which count as one owner there."""
    return sum(map(torch._C._storage_Use_Count, addresses)) + sum(map(sys.getrefcount, storages))


@functools.cache
def _owners_of_a_kept_tensor() -> int:
    """What `_owners` says of one tensor that nobody else holds; asked, because it differs between versions."""
    storages = [torch.empty(1).untyped_storage()]
    tensors = [torch.empty(0).set_(storages[0])]
    found = _owners([StorageWeakRef(tensors[0].untyped_storage()).cdata], storages)
    tensors.clear()
    return found
