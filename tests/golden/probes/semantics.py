"""29 questions about what graphs remember, share, reuse and refuse. Each probe returns plain data."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from tests.golden.probes.asking import DEVICE, capture, error_line, filled, torch_class

import torch
import torch.nn.functional as F

PROBES: dict[str, Callable[[], Any]] = {}


def probe(function: Callable[[], Any]) -> Callable[[], Any]:
    PROBES[function.__name__] = function
    return function


def answers() -> dict[str, Any]:
    """Ask everything, in file order; a probe that raises answers "EXC " and the error."""
    found = {}
    for name, ask in PROBES.items():
        try:
            found[name] = ask()
        except Exception as error:
            found[name] = f"EXC {error_line(error)}"
    return found


# What is recorded, and what is fixed at capture


@probe
def not_run_in_capture() -> list[float]:
    """A capture runs nothing; each replay runs the work once."""
    counter = filled()
    graph, _ = capture(lambda: counter.add_(1))
    seen = [counter[0].item()]
    for _ in range(2):
        graph.replay()
        seen.append(counter[0].item())
    return seen


@probe
def same_output_memory() -> list[Any]:
    x = filled()
    graph, y = capture(lambda: x + 1)
    graph.replay()
    first = y
    x.fill_(5)
    graph.replay()
    return [first[0].item(), y.data_ptr() == first.data_ptr()]


@probe
def python_scalar_baked() -> float:
    factor = [2.0]
    x = filled(4, 1.0)
    graph, y = capture(lambda: x * factor[0])
    factor[0] = 9.0
    graph.replay()
    return y[0].item()


@probe
def cpu0d_baked() -> float:
    factor, x = torch.tensor(2.0), filled(4, 1.0)
    graph, y = capture(lambda: x * factor)
    factor.fill_(9.0)
    graph.replay()
    return y[0].item()


@probe
def dev0d_not_baked() -> float:
    factor, x = filled(1, 2.0)[0], filled(4, 1.0)
    graph, y = capture(lambda: x * factor)
    factor.fill_(9.0)
    graph.replay()
    return y[0].item()


@probe
def host_work_elided() -> list[Any]:
    calls, host, x = [0], torch.zeros(1), filled()

    def body() -> torch.Tensor:
        calls[0] += 1
        host.add_(1)
        return x + 1

    graph, _ = capture(body)
    graph.replay()
    graph.replay()
    return [calls[0], host.item()]


# Lifetimes and memory pools


@probe
def freed_input() -> list[Any]:
    """A freed input's memory goes to the next tensor, and the graph reads that."""
    doomed = [filled(4096, 1.0)]
    address = doomed[0].data_ptr()
    graph, y = capture(lambda: doomed[0] + 0)
    doomed.clear()
    successor = filled(4096, 5.0)
    graph.replay()
    return [successor.data_ptr() == address, y[0].item()]


@probe
def temp_reused_in_capture() -> list[bool]:
    x, addresses = filled(4096), []

    def body() -> Any:
        temporary = x + 1
        addresses.append(temporary.data_ptr())
        del temporary
        second = x + 2
        addresses.append(second.data_ptr())
        third = x + 3
        addresses.append(third.data_ptr())
        return second, third

    capture(body)
    return [addresses[0] == addresses[1], addresses[1] == addresses[2]]


@probe
def stale_view_of_temp() -> list[Any]:
    x, addresses = filled(4096, 1.0), []

    def body() -> Any:
        temporary = x + 1
        addresses.append(temporary.data_ptr())
        kept = temporary * 10
        del temporary
        return kept, x + 100

    graph, (kept, late) = capture(body)
    graph.replay()
    return [late.data_ptr() == addresses[0], kept[0].item(), late[0].item()]


@probe
def pool_not_for_eager() -> bool:
    x, addresses = filled(4096), []

    def body() -> torch.Tensor:
        addresses.append((x + 1).data_ptr())
        return x + 2

    _graph, _y = capture(body)
    eager = [torch.empty(4096, device=DEVICE) for _ in range(9)]
    return any(tensor.data_ptr() == addresses[0] for tensor in eager)


@probe
def shared_pool_clobbers_freed_output() -> list[Any]:
    """In a shared pool a later capture takes the memory of an earlier result once nothing refers to it."""
    x, stream = filled(4096, 1.0), torch.cuda.Stream()
    first, y = capture(lambda: x + 1, stream=stream)
    address = y.data_ptr()
    view = y.view(-1)[:8]
    del y
    second, kept = capture(lambda: x + 50, pool=first.pool(), stream=stream)
    reused = [kept.data_ptr() == address]
    del view
    third, taken = capture(lambda: x + 70, pool=first.pool(), stream=stream)
    reused.append(taken.data_ptr() == address)
    for graph in (first, second, third, first):
        graph.replay()
    return [*reused, taken[0].item(), kept[0].item()]


@probe
def shared_pool_other_stream() -> bool:
    x, one, other = filled(4096, 1.0), torch.cuda.Stream(), torch.cuda.Stream()
    first, y = capture(lambda: x + 1, stream=one)
    address = y.data_ptr()
    del y
    _second, late = capture(lambda: x + 50, pool=first.pool(), stream=other)
    return late.data_ptr() == address


@probe
def outputs_survive_graph() -> float:
    x = filled(4096, 1.0)
    graph, y = capture(lambda: x + 1)
    graph.replay()
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    _others = [filled(4096, 7.0) for _ in range(20)]
    return y[0].item()


@probe
def data_swap_is_not_seen() -> float:
    parameter = torch.nn.Parameter(filled(4, 1.0))
    _kept = parameter.data
    graph, y = capture(lambda: parameter.detach() * 3)
    parameter.data = filled(4, 9.0)
    graph.replay()
    return y[0].item()


@probe
def output_is_input() -> bool:
    x = filled(4, 1.0)
    graph, y = capture(lambda: x)
    graph.replay()
    return y.data_ptr() == x.data_ptr()


# Random numbers


@probe
def rng_replay_is_eager() -> list[Any]:
    """Replays from a seed draw what eager calls from that seed draw, and leave the generator where they leave it."""
    x = filled(4096, 1.0)

    def body() -> Any:
        return F.dropout(x, 0.5), torch.rand(100, device=DEVICE)

    generator = torch.cuda.default_generators[0]
    body()
    torch.manual_seed(3)
    graph, (dropped, drawn) = capture(body)
    seen: list[Any] = [generator.get_offset()]
    torch.manual_seed(3)
    eager = [[result.clone() for result in body()] for _ in range(3)]
    offset = generator.get_offset()
    torch.manual_seed(3)
    for expected in eager:
        graph.replay()
        seen.append(torch.equal(dropped, expected[0]) and torch.equal(drawn, expected[1]))
    return [*seen, generator.get_offset() == offset]


@probe
def rng_two_replays_differ() -> bool:
    graph, drawn = capture(lambda: torch.rand(100, device=DEVICE))
    graph.replay()
    first = drawn.clone()
    graph.replay()
    return torch.equal(drawn, first)


@probe
def rng_state_restore() -> list[Any]:
    graph, drawn = capture(lambda: torch.rand(100, device=DEVICE))
    state = torch.cuda.get_rng_state()
    graph.replay()
    first = drawn.clone()
    torch.cuda.set_rng_state(state)
    graph.replay()
    return [torch.equal(drawn, first), state.numel()]


# Warm-up and gradients


@probe
def warmup_mutates() -> float:
    counter = filled()
    for _ in range(3):
        counter.add_(1)
    graph, _ = capture(lambda: counter.add_(1))
    graph.replay()
    return counter[0].item()


@probe
def grad_accumulation_graphed() -> list[float]:
    """make_graphed_callables accumulates wrongly: `p.grad` is the graph's own static buffer."""

    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(filled(3, 1.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight * 2

    module = Scale()
    graphed = torch.cuda.make_graphed_callables(module, (filled(3, 1.0).requires_grad_(),))
    seen = []
    for value in (1.0, 10.0, 100.0):
        graphed(filled(3, value).requires_grad_()).sum().backward()
        seen.append(module.weight.grad[0].item())
    return seen


# Refusals


@probe
def default_stream_capture() -> None:
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    graph.capture_end()


@probe
def replay_without_capture() -> None:
    torch.cuda.CUDAGraph().replay()


@probe
def capture_twice() -> None:
    graph, _ = capture(filled)
    with torch.cuda.graph(graph):
        filled()


@probe
def context_chain() -> Any:
    x = filled()
    try:
        capture(lambda: x.sum().item())
    except Exception as error:
        assert error.__context__ is not None
        return [
            error_line(error),
            error_line(error.__context__),
            isinstance(error, RuntimeError),
            torch_class(error).__mro__[1].__name__,
        ]


@probe
def op_after_illegal() -> list[Any]:
    """After a forbidden call launches are refused, allocations are not, and the end of the capture raises."""
    x, seen = filled(), []

    def attempt(action: Callable[[], Any], passed: str) -> None:
        try:
            action()
            if passed:
                seen.append(passed)
        except Exception as error:
            seen.append(error_line(error))

    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            attempt(lambda: x.sum().item(), "")
            attempt(lambda: x + 1, "next op ok")
            attempt(lambda: torch.empty(3, device=DEVICE), "empty ok")
    except Exception as error:
        seen.append(error_line(error))
    return [*seen, (x + 1)[0].item()]


@probe
def python_error_in_capture() -> list[Any]:
    x, seen = filled(), []
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x + 1
            raise KeyError("k")
    except Exception as error:
        seen.append(error_line(error))
    graph, y = capture(lambda: x + 1)
    graph.replay()
    return [*seen, y[0].item(), torch.cuda.is_current_stream_capturing()]


@probe
def d2h_nonblocking_replayed() -> float:
    x, host = filled(), torch.zeros(4)
    graph, _ = capture(lambda: host.copy_(x, non_blocking=True))
    x.fill_(7.0)
    graph.replay()
    torch.cuda.synchronize()
    return host[0].item()


@probe
def h2d_nonblocking_replayed() -> float:
    x, host = filled(), torch.ones(4)
    graph, _ = capture(lambda: x.copy_(host, non_blocking=True))
    host.fill_(7.0)
    graph.replay()
    torch.cuda.synchronize()
    return x[0].item()


@probe
def in_place_view_output() -> list[float]:
    x = filled(4, 1.0)

    def body() -> Any:
        y = x + 1
        y[0] = 100.0
        return y[1:], y

    graph, (view, y) = capture(body)
    graph.replay()
    x.fill_(5.0)
    graph.replay()
    return [view[0].item(), y[0].item()]
