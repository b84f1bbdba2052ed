"""Where the caching allocator puts blocks: 40 random programs of three captures that share one memory pool."""

from __future__ import annotations

import random

from tests.golden.probes.asking import DEVICE

import torch

PROGRAMS = 40
CAPTURES = 3
STEPS = 40
FREE_SHARE = 0.45  # of the steps that free a tensor rather than allocate one
SMALL = [1, 100, 128, 129, 1000, 5000, 20000, 100000]  # float32 elements
LARGE = [262144, 262145, 400000, 1000000, 3000000]


def answers() -> list[list[tuple[int, int]]]:
    """Return, per program and allocation, (segment, offset in bytes), segments numbered as they appear."""
    return [placements(seed) for seed in range(PROGRAMS)]


def placements(seed: int) -> list[tuple[int, int]]:
    """Run one program; every third one allocates large tensors too."""
    choices = random.Random(seed)
    sizes = SMALL + LARGE if seed % 3 == 0 else SMALL
    live: dict[int, torch.Tensor] = {}
    addresses: list[int] = []

    def allocate_and_free(first_key: int) -> None:
        for step in range(STEPS):
            if live and choices.random() < FREE_SHARE:
                live.pop(choices.choice(sorted(live)))
            else:
                tensor = torch.empty(choices.choice(sizes), device=DEVICE)
                live[first_key + step] = tensor
                addresses.append(tensor.data_ptr())

    stream = torch.cuda.Stream()
    x = torch.zeros(1, device=DEVICE)
    torch.cuda.empty_cache()
    pool, graphs = None, []
    for number in range(CAPTURES):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            x + 1
            allocate_and_free(number * 100)
        pool = graph.pool()
        graphs.append(graph)
    starts = [segment["address"] for segment in torch.cuda.memory_snapshot()]
    names: dict[int, int] = {}
    placed = []
    for address in addresses:
        start = max(candidate for candidate in starts if candidate <= address)
        placed.append((names.setdefault(start, len(names)), address - start))
    return placed
