"""Questions about corners: what failed captures leave behind, streams and events in captures, pinned memory, threads.

Each probe starts from a fresh default generator state and a stream of its own, and returns plain data.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

from tests.golden.probes.asking import DEVICE, capture, error_line, filled, taking_part

import torch

PROBES: dict[str, Callable[[], Any]] = {}


def probe(function: Callable[[], Any]) -> Callable[[], Any]:
    PROBES[function.__name__] = function
    return function


def answer(name: str) -> Any:
    """Ask one question, then make the generator usable again and go back to the default stream."""
    generator = torch.cuda.default_generators[0]
    clone = generator.clone_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return PROBES[name]()
    except Exception as error:
        return f"EXC {error_line(error)}"
    finally:
        generator.graphsafe_set_state(clone)
        torch.cuda.set_stream(torch.cuda.default_stream())


def attempt(action: Callable[[], Any]) -> Any:
    """Return "ok" or the error."""
    try:
        action()
    except Exception as error:
        return error_line(error)
    return "ok"


def in_capture(action: Callable[[], Any], **options: Any) -> list[Any]:
    """Attempt an action in a capture; returns its answer and the capture's."""
    x, seen = filled(), []

    def body() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), **options):
            x + 1
            seen.append(attempt(action))

    end = attempt(body)
    return [*seen, end]


def fail_a_capture() -> None:
    x = filled()
    assert attempt(lambda: capture(lambda: x.sum().item())) != "ok"


# What a failed capture leaves behind


@probe
def replay_after_failed_capture() -> list[Any]:
    x = filled()
    graph, y = capture(lambda: x + 1)
    fail_a_capture()
    return [attempt(graph.replay), y[0].item()]


@probe
def draw_after_failed_capture() -> list[Any]:
    fail_a_capture()
    generator = torch.cuda.default_generators[0]
    seen = [attempt(lambda: torch.rand(2, device=DEVICE))]
    capture(filled)
    return [*seen, attempt(lambda: torch.rand(2, device=DEVICE)), generator.get_offset() % 4]


@probe
def stream_after_failed_capture() -> bool:
    fail_a_capture()
    return torch.cuda.current_stream() == torch.cuda.default_stream()


@probe
def memory_after_failed_capture() -> list[int]:
    fail_a_capture()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(3):
        fail_a_capture()
    gc.collect()
    torch.cuda.empty_cache()
    return [(torch.cuda.memory_reserved() - before) >> 20]


@probe
def memory_after_dropped_graph() -> list[int]:
    x = filled()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    graph, y = capture(lambda: x + 1)
    held = torch.cuda.memory_reserved() - before
    del graph, y
    gc.collect()
    dropped = torch.cuda.memory_reserved() - before
    torch.cuda.empty_cache()
    return [held >> 20, dropped >> 20, (torch.cuda.memory_reserved() - before) >> 20]


@probe
def statistics() -> list[int]:
    torch.cuda.empty_cache()
    allocated = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    requested = torch.cuda.memory_stats()["requested_bytes.all.current"]
    _small = torch.empty(1000, device=DEVICE)
    large = torch.empty(3 << 20, device=DEVICE)
    del large
    return [
        torch.cuda.memory_allocated() - allocated,
        torch.cuda.max_memory_allocated() - allocated,
        torch.cuda.memory_stats()["requested_bytes.all.current"] - requested,
    ]


# Begin, end, reset


@probe
def begin_in_capture() -> list[Any]:
    return in_capture(lambda: torch.cuda.CUDAGraph().capture_begin())


@probe
def end_without_begin() -> Any:
    with torch.cuda.stream(torch.cuda.Stream()):
        return attempt(lambda: torch.cuda.CUDAGraph().capture_end())


@probe
def end_on_other_stream() -> list[Any]:
    graph, x = torch.cuda.CUDAGraph(), filled()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        x + 1
        with torch.cuda.stream(torch.cuda.Stream()):
            seen = [attempt(graph.capture_end)]
        return [*seen, attempt(graph.capture_end)]


@probe
def unknown_error_mode() -> Any:
    with torch.cuda.stream(torch.cuda.Stream()):
        return attempt(lambda: torch.cuda.CUDAGraph().capture_begin(capture_error_mode="strict"))


@probe
def pool_before_capture() -> Any:
    return attempt(lambda: torch.cuda.CUDAGraph().pool())


@probe
def instantiate_before_capture() -> Any:
    return attempt(lambda: torch.cuda.CUDAGraph().instantiate())


@probe
def reset_and_capture_again() -> list[Any]:
    graph, x = torch.cuda.CUDAGraph(), filled()
    with torch.cuda.graph(graph):
        x + 1
    graph.reset()
    seen = [attempt(graph.replay)]
    with torch.cuda.graph(graph):
        y = x + 2
    graph.replay()
    return [*seen, y[0].item()]


@probe
def empty_capture_warns() -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capture(lambda: None)
    return [str(warning.message)[:28] for warning in caught]


@probe
def own_pool_ids() -> list[bool]:
    x = filled()
    graph, _ = capture(lambda: x + 1)
    handle = torch.cuda.graph_pool_handle()
    shared, _ = capture(lambda: x + 1, pool=handle)
    return [graph.pool()[0] > 0, graph.pool()[1] == 0, handle[0] == 0, shared.pool() == handle]


# Generators


@probe
def generator_calls_in_capture() -> dict[str, list[Any]]:
    generator = torch.cuda.default_generators[0]
    state = generator.get_state()
    calls: dict[str, Callable[[], Any]] = {
        "initial_seed": generator.initial_seed,
        "get_offset": generator.get_offset,
        "set_offset": lambda: generator.set_offset(0),
        "seed": generator.seed,
        "get_state": generator.get_state,
        "set_state": lambda: generator.set_state(state),
        "clone_state": generator.clone_state,
        "graphsafe_get_state": generator.graphsafe_get_state,
        "graphsafe_set_state": lambda: generator.graphsafe_set_state(generator.graphsafe_get_state()),
        "torch.Generator": lambda: torch.Generator(device=DEVICE),
    }
    return {name: in_capture(call) for name, call in calls.items()}


@probe
def graphs_stay_with_their_state() -> list[Any]:
    generator = torch.cuda.default_generators[0]
    generator.manual_seed(3)
    graph, drawn = capture(lambda: torch.rand(8, device=DEVICE))
    old, new = generator.graphsafe_get_state(), generator.clone_state()
    generator.graphsafe_set_state(new)
    graph.replay()
    offsets = [old.get_offset() > 0, new.get_offset()]
    first = drawn.clone()
    return [*offsets, torch.equal(torch.rand(8, device=DEVICE), first), new.get_offset() == old.get_offset()]


@probe
def two_registered_generators() -> list[bool]:
    generators = [torch.Generator(device=DEVICE).manual_seed(seed) for seed in (1, 2)]
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        drawn = [torch.rand(8, device=DEVICE, generator=generator) for generator in (*generators, generators[0])]
    graph.replay()
    for seed, generator in zip((1, 2), generators, strict=True):
        generator.manual_seed(seed)
    eager = [torch.rand(8, device=DEVICE, generator=generator) for generator in (*generators, generators[0])]
    return [torch.equal(left, right) for left, right in zip(drawn, eager, strict=True)]


@probe
def unseeded_generator() -> int:
    return torch.Generator(device=DEVICE).initial_seed()


# Streams and events


@probe
def work_on_stream_outside_capture() -> list[Any]:
    x, other = filled(), torch.cuda.Stream()
    torch.cuda.synchronize()
    seen = []

    def body() -> torch.Tensor:
        with torch.cuda.stream(other):
            seen.append(torch.cuda.is_current_stream_capturing())
            x.add_(1)
        seen.append(torch.cuda.is_current_stream_capturing())
        return x * 2

    graph, y = capture(body)
    torch.cuda.synchronize()
    seen.append(x[0].item())
    graph.replay()
    return [*seen, x[0].item(), y[0].item()]


@probe
def joined_fork() -> list[Any]:
    x, side = filled(), torch.cuda.Stream()

    def body() -> torch.Tensor:
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = x + 1
        main.wait_stream(side)
        return y

    graph, y = capture(body)
    graph.replay()
    return [y[0].item()]


@probe
def unjoined_fork() -> list[Any]:
    x, side = filled(), torch.cuda.Stream()

    def body() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x + 1

    return [attempt(lambda: capture(body)), attempt(lambda: capture(lambda: x + 1))]


@probe
def wait_for_uncaptured_stream() -> list[Any]:
    side = torch.cuda.Stream()
    return in_capture(lambda: torch.cuda.current_stream().wait_stream(side))


@probe
def wait_for_uncaptured_event() -> list[Any]:
    event = torch.cuda.Event()
    event.record()
    return in_capture(lambda: event.wait())


@probe
def wait_for_unrecorded_event() -> list[Any]:
    return in_capture(lambda: torch.cuda.Event().wait())


@probe
def synchronize_events_in_capture() -> dict[str, list[Any]]:
    before = torch.cuda.Event()
    before.record()

    def recorded_inside(use: str) -> None:
        event = torch.cuda.Event()
        event.record()
        getattr(event, use)()

    return {
        "unrecorded": in_capture(lambda: torch.cuda.Event().synchronize()),
        "before": in_capture(before.synchronize),
        "before, query": in_capture(before.query),
        "inside": in_capture(lambda: recorded_inside("synchronize")),
        "inside, query": in_capture(lambda: recorded_inside("query")),
    }


@probe
def captured_event_used_later() -> list[Any]:
    x, event = filled(), torch.cuda.Event()
    graph, _ = capture(lambda: (event.record(), x + 1))
    graph.replay()
    return [attempt(event.query), attempt(event.synchronize), attempt(event.wait)]


@probe
def synchronize_streams_in_capture() -> dict[str, list[Any]]:
    other = torch.cuda.Stream()

    def on_other(action: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            with torch.cuda.stream(other):
                action()

        return run

    return {
        "current, query": in_capture(lambda: torch.cuda.current_stream().query()),
        "other": in_capture(other.synchronize),
        "other, query": in_capture(other.query),
        "default": in_capture(torch.cuda.default_stream().synchronize),
        "device, from other": in_capture(on_other(torch.cuda.synchronize)),
        "device, from other, thread_local": in_capture(
            on_other(torch.cuda.synchronize), capture_error_mode="thread_local"
        ),
        "item, on other": in_capture(on_other(lambda: torch.ones(1, device=DEVICE).item())),
    }


# Host memory


@probe
def pinned_copies() -> list[Any]:
    x, host = filled(4, 1.0), torch.zeros(4).pin_memory()
    graph, (_, back) = capture(lambda: (host.copy_(x, non_blocking=True), host.to(DEVICE, non_blocking=True)))
    x.fill_(7.0)
    graph.replay()
    torch.cuda.synchronize()
    return [host.is_pinned(), host[0].item(), back[0].item()]


@probe
def blocking_pinned_copies() -> dict[str, list[Any]]:
    x, host = filled(4, 1.0), torch.zeros(4).pin_memory()
    return {
        "to host": in_capture(lambda: host.copy_(x)),
        "to device": in_capture(lambda: x.copy_(host)),
        "to(device)": in_capture(lambda: host.to(DEVICE)),
    }


@probe
def transfer_to_host() -> list[Any]:
    x = filled(4, 1.0)
    graph, host = capture(lambda: (x * 2).to("cpu", non_blocking=True))
    x.fill_(4.0)
    graph.replay()
    torch.cuda.synchronize()
    return [host.is_pinned(), host[0].item(), x.to("cpu", non_blocking=True).is_pinned(), x.cpu().is_pinned()]


@probe
def grouped_copy_from_host() -> list[Any]:
    targets = [filled(), filled()]
    sources = [torch.full((4,), 5.0), filled(4, 2.0)]
    torch._foreach_copy_(targets, sources)
    return [[target[0].item() for target in targets], *in_capture(lambda: torch._foreach_copy_(targets, sources))]


@probe
def pinning_refused() -> list[Any]:
    return [attempt(filled().pin_memory), *in_capture(lambda: torch.ones(4).pin_memory())]


# Threads


def _elsewhere(action: Callable[[], Any], **options: Any) -> list[Any]:
    """Let another thread act while this one captures; returns that thread's answer and the capture's."""
    seen: list[Any] = []

    def work() -> None:
        with taking_part():
            seen.append(attempt(action))

    def start() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    return [*in_capture(start, **options), *seen]


@probe
def other_threads_in_capture() -> dict[str, list[Any]]:
    x = filled()
    actions: dict[str, Callable[[], Any]] = {
        "launch": lambda: x.add_(1),
        "allocate": lambda: torch.empty(30 << 20, device=DEVICE),
        "item": lambda: x[0].item(),
        "copy": x.cpu,
        "synchronize": torch.cuda.synchronize,
        "capturing?": lambda: [1][torch.cuda.is_current_stream_capturing()],
    }
    return {
        f"{name}, {mode}": _elsewhere(action, capture_error_mode=mode)
        for mode in ("thread_local", "global")
        for name, action in actions.items()
    }


# Autograd


@probe
def gradients_accumulate_in_replays() -> list[float]:
    weight = filled(3, 2.0).requires_grad_()
    weight.grad = torch.zeros_like(weight)
    graph, _ = capture(lambda: (weight * weight).sum().backward())
    seen = [weight.grad[0].item()]
    for _ in range(2):
        graph.replay()
        seen.append(weight.grad[0].item())
    return seen


@probe
def versions_in_captures_and_replays() -> list[int]:
    x = filled()
    version = x._version
    graph, _ = capture(lambda: x.add_(1))
    seen = [x._version - version]
    graph.replay()
    return [*seen, x._version - version]
