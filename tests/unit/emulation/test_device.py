"""EmulatedCUDA in force: what torch says and does, threads, nesting, and that leaving restores everything."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator

from cgverify.emulation import CaptureError, EmulatedCUDA
from tests.golden.probes.asking import capture, filled

import pytest
import torch


@pytest.fixture
def cuda() -> Iterator[EmulatedCUDA]:
    with EmulatedCUDA() as device:
        yield device


# In and out of force


def snapshot() -> dict[str, object]:
    """Return every attribute of torch that the emulation might touch."""
    holders = {
        "torch": torch,
        "C": torch._C,
        "cuda": torch.cuda,
        "graphs": torch.cuda.graphs,
        "streams": torch.cuda.streams,
        "graph": torch.cuda.graphs.graph,
        "nvtx": torch.cuda.nvtx,
        "cudnn": torch.backends.cudnn,
        "utils": torch._utils,
        "clip": torch.nn.utils.clip_grad,
        "foreach": torch.utils._foreach_utils,
    }
    return {f"{holder}.{name}": value for holder, obj in holders.items() for name, value in vars(obj).items()}


def test_leaving_restores_torch() -> None:
    """After the block, left by an exception or not, every attribute of torch is what it was."""
    before = snapshot()
    with pytest.raises(KeyError), EmulatedCUDA():
        assert snapshot() != before
        raise KeyError
    after = snapshot()
    assert after.keys() == before.keys()
    assert [name for name, value in before.items() if after[name] is not value] == []
    assert torch.ones(2).device.type == "cpu"


def test_one_at_a_time(cuda: EmulatedCUDA) -> None:
    """A second EmulatedCUDA is refused, says what to do, and leaves the first in force."""
    with pytest.raises(RuntimeError, match=r"active already: leave it .* `with cuda.in_thread\(\):`"), EmulatedCUDA():
        pass
    assert filled().device == torch.device("cuda:0")
    with pytest.raises(RuntimeError, match="this thread takes part in the emulation already"), cuda.in_thread():
        pass


def test_nothing_works_outside() -> None:
    """Streams, graphs and in_thread() need a device in force, and current() says which one is."""
    with EmulatedCUDA() as cuda:
        assert EmulatedCUDA.current() is cuda
        stream_class, graph_class = torch.cuda.Stream, torch.cuda.CUDAGraph
    assert EmulatedCUDA.current() is None
    for use in (stream_class, graph_class, cuda.in_thread().__enter__):
        with pytest.raises(RuntimeError, match="no EmulatedCUDA is active"):
            use()


def test_tensors_may_outlive_the_device() -> None:
    """A tensor that is left over keeps its values and is freed without harm."""
    with EmulatedCUDA():
        x = filled(4, 2.0)
    assert x.tolist() == [2.0] * 4
    del x
    with EmulatedCUDA():
        assert filled().tolist() == [0.0] * 4


@pytest.mark.parametrize("available", [True, False])
def test_available(available: bool) -> None:
    """`available` is what torch.cuda.is_available() says; all else works either way."""
    with EmulatedCUDA(available=available):
        assert torch.cuda.is_available() is available
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            assert torch.cuda.current_stream() == side
        graph, y = capture(lambda: filled() + 1)
        graph.replay()
        assert y.tolist() == [1.0] * 4


# What torch.cuda says


def test_device_queries(cuda: EmulatedCUDA) -> None:
    """There is one device, cuda:0, and torch.cuda describes it."""
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
    assert torch.cuda.get_device_name(0) == "Emulated CUDA device"
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties("cuda").total_memory == 1 << 30
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.is_initialized()
    with torch.cuda.device(0), torch.cuda.device("cuda:0"), torch.cuda.device_of(filled()):
        torch.cuda.set_device(0)
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.cuda.set_device(1)


def test_accelerator(cuda: EmulatedCUDA) -> None:
    """torch.accelerator speaks of the same device, streams and memory."""
    assert torch.accelerator.current_accelerator(check_available=True) == torch.device("cuda")
    assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (1, 0)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert torch.accelerator.current_stream() == side
        assert not torch.accelerator.current_stream().is_capturing()
    x = filled()
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated() == 512
    capturing: list[bool] = []
    capture(lambda: (capturing.append(torch.accelerator.current_stream().is_capturing()), x + 1))
    assert capturing == [True]
    torch.accelerator.synchronize()


def test_memory_statistics(cuda: EmulatedCUDA) -> None:
    """Allocated, reserved and peak bytes follow the tensors, and the summary prints."""
    x = torch.empty(1000, device="cuda")
    assert torch.cuda.memory_allocated() == 4096
    assert torch.cuda.memory_reserved() == 2 << 20
    y = torch.empty(3 << 20, device="cuda")
    del y
    assert torch.cuda.max_memory_allocated() == 4096 + (12 << 20)
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == 4096
    assert torch.cuda.memory_stats()["requested_bytes.all.current"] == 4000
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved() - (12 << 20)
    free, total = torch.cuda.mem_get_info()
    assert (free, total) == ((1 << 30) - (2 << 20), 1 << 30)
    assert "Allocated memory" in torch.cuda.memory_summary()
    del x


def test_memory_snapshot(cuda: EmulatedCUDA) -> None:
    """The snapshot has a segment for the pool, with the tensor's block at the tensor's address."""
    x = filled()
    graph, y = capture(lambda: x + 1)
    (segment,) = torch.cuda.memory_snapshot(graph.pool())
    assert segment["segment_pool_id"] == graph.pool()
    live = [block["address"] for block in segment["blocks"] if block["state"] == "active_allocated"]
    assert live == [y.data_ptr()]
    assert len(torch.cuda.memory_snapshot()) == 2


def test_out_of_memory() -> None:
    """A request beyond the capacity raises torch.OutOfMemoryError and says how to get more."""
    with EmulatedCUDA(capacity=64 << 20), pytest.raises(torch.OutOfMemoryError, match="pass a larger capacity="):
        torch.empty(100 << 20, dtype=torch.uint8, device="cuda")


def test_torch_compile_compiles_nothing(cuda: EmulatedCUDA) -> None:
    """torch.compile hands back what it is given, as a function and as a decorator."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert torch.compile(function) is function
    assert torch.compile(fullgraph=True)(function) is function


def test_nvtx_does_nothing(cuda: EmulatedCUDA) -> None:
    """NVTX ranges can be opened and closed."""
    with torch.cuda.nvtx.range("outer"):
        assert torch.cuda.nvtx.range_push("inner") == 1
        assert torch.cuda.nvtx.range_pop() == 1
    torch.cuda.nvtx.mark("here")


# Tensors


def test_tensors_say_cuda(cuda: EmulatedCUDA) -> None:
    """Device tensors say cuda:0 in every way Python asks; host tensors do not."""
    x, host = filled(), torch.ones(2)
    assert (x.device, x.is_cuda, x.is_cpu, x.get_device()) == (torch.device("cuda:0"), True, False, 0)
    assert (host.device, host.is_cuda, host.is_cpu) == (torch.device("cpu"), False, True)
    assert x[1:].is_cuda
    assert torch.zeros_like(x).is_cuda
    assert not torch.zeros_like(x, device="cpu").is_cuda
    assert torch.zeros_like(host, device="cuda").is_cuda
    assert torch.empty(0, device="cuda").is_cuda
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()


def test_transfers(cuda: EmulatedCUDA) -> None:
    """.to, .cuda and .cpu move values, keep what is in place, and carry gradients back."""
    host = torch.arange(4.0, requires_grad=True)
    moved = host.to("cuda", torch.float64)
    assert (moved.device.type, moved.dtype) == ("cuda", torch.float64)
    assert moved.to("cuda") is moved
    (moved * 2).sum().cpu().backward()
    assert host.grad is not None
    assert (host.grad.device.type, host.grad.dtype, host.grad.tolist()) == ("cpu", torch.float32, [2.0] * 4)
    x = filled(4, 3.0)
    assert x.cpu().tolist() == [3.0] * 4
    assert host.detach().to(x).is_cuda
    assert x.to(host).device.type == "cpu"
    assert torch.tensor([1.0, 2.0], device="cuda", requires_grad=True).is_leaf
    assert torch.nn.Linear(2, 2).to("cuda").weight.is_cuda
    assert x.to("cuda", copy=True).data_ptr() != x.data_ptr()


def test_pinned_memory_may_be_copied_in_a_capture(cuda: EmulatedCUDA) -> None:
    """Pinned tensors say so, and non-blocking copies to and from them are replayed; blocking ones invalidate."""
    x, host = filled(4, 1.0), torch.zeros(4, pin_memory=True)
    assert host.is_pinned()
    assert torch.ones(4).pin_memory().is_pinned()
    assert not torch.ones(4).is_pinned()
    graph, (_, back) = capture(lambda: (host.copy_(x, non_blocking=True), host.to("cuda", non_blocking=True)))
    x.fill_(7.0)
    graph.replay()
    assert (host.tolist(), back.tolist()) == ([7.0] * 4, [7.0] * 4)
    with pytest.raises(CaptureError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        host.copy_(x)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.pin_memory()


def test_a_transfer_to_the_host_in_a_capture_is_replayed(cuda: EmulatedCUDA) -> None:
    """A non-blocking transfer gives a pinned result that each replay fills."""
    x = filled(4, 1.0)
    graph, host = capture(lambda: (x * 2).to("cpu", non_blocking=True))
    assert host.is_pinned()
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        assert host.tolist() == [value * 2] * 4


def test_copies_that_overlap(cuda: EmulatedCUDA) -> None:
    """copy_ between views of one tensor does the same eagerly and in a replay."""
    eager, x = (torch.arange(6.0, device="cuda") for _ in range(2))
    eager[1:].copy_(eager[:-1].clone())
    graph, _ = capture(lambda: x[1:].copy_(x[:-1].clone()))
    graph.replay()
    assert x.tolist() == eager.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]


def test_grouped_ops(cuda: EmulatedCUDA) -> None:
    """torch._foreach_* work eagerly and in a replay; a grouped copy from the host is a copy each."""
    targets, sources = [filled() for _ in range(2)], [filled(4, 1.0), filled(4, 2.0)]
    graph, added = capture(lambda: (torch._foreach_copy_(targets, sources), torch._foreach_add(targets, 1.0))[1])
    graph.replay()
    assert [t.tolist()[0] for t in (*targets, *added)] == [1.0, 2.0, 2.0, 3.0]
    torch._foreach_copy_(targets, [torch.full((4,), 5.0), sources[1]])
    assert [t.tolist()[0] for t in targets] == [5.0, 2.0]
    torch._foreach_add_(targets, sources)
    assert [t.tolist()[0] for t in targets] == [6.0, 4.0]


def test_storages_and_addresses(cuda: EmulatedCUDA) -> None:
    """set_, as_strided and empty_strided see the addresses that torch would show."""
    x = torch.arange(12.0, device="cuda")
    assert x.data_ptr() % 512 == 0
    assert x[1:].data_ptr() - x.data_ptr() == 4
    assert x[1:].untyped_storage().data_ptr() == x.data_ptr()
    assert x.as_strided((2, 2), (4, 1), 1).tolist() == [[1.0, 2.0], [5.0, 6.0]]
    strided = torch.empty_strided((2, 3), (1, 4), device="cuda")
    assert strided.stride() == (1, 4)
    alias = torch.empty(0, device="cuda").set_(x.untyped_storage(), 2, (3,), (2,))
    assert alias.is_cuda
    assert alias.tolist() == [2.0, 4.0, 6.0]
    version = x._version
    x.add_(1)
    assert x._version == version + 1
    graph, _ = capture(lambda: torch.as_strided_copy(x, (2,), (1,), 3))
    graph.replay()


def test_captures_see_in_place_metadata_changes_at_once(cuda: EmulatedCUDA) -> None:
    """transpose_ and the like change the tensor's shape in the capture and are no launches."""
    x = torch.arange(6.0, device="cuda").view(2, 3)

    def body() -> torch.Tensor:
        y = x + 0
        y.t_()
        return y * 2

    graph, y = capture(body)
    assert y.shape == (3, 2)
    for _ in range(2):
        graph.replay()
        assert torch.equal(y, x.t() * 2)


def test_inference_mode(cuda: EmulatedCUDA) -> None:
    """Composite ops are taken apart under inference_mode too."""
    x = torch.arange(6.0, device="cuda").view(2, 3)
    with torch.inference_mode():
        graph, y = capture(lambda: torch.nn.functional.linear(x.t().reshape(3, 2), x.t()))
        graph.replay()
    assert torch.equal(y, x.t() @ x)


def test_deepcopy(cuda: EmulatedCUDA) -> None:
    """A deep copy of a module lies on the device, in memory of its own."""
    module = torch.nn.Linear(2, 2, device="cuda")
    other = copy.deepcopy(module)
    assert isinstance(other.weight, torch.nn.Parameter)
    assert other.weight.is_cuda
    assert other.weight.data_ptr() != module.weight.data_ptr()
    assert torch.equal(other.weight, module.weight)


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"foreach": True, "capturable": True}])
def test_an_optimizer_step_is_the_cpus(cuda: EmulatedCUDA, options: dict[str, bool]) -> None:
    """Adam on the device does what Adam does on the CPU, and its capturable step can be replayed."""
    parameters = [
        torch.ones(3, device="cuda", requires_grad=True),
        torch.full((2,), 2.0, device="cuda").requires_grad_(),
    ]
    reference = [p.detach().cpu().clone().requires_grad_() for p in parameters]
    ours, theirs = torch.optim.Adam(parameters, **options), torch.optim.Adam(reference)
    for _step in range(2):
        for each in (parameters, reference):
            for parameter in each:
                parameter.grad = parameter.detach() * 2
        ours.step()
        theirs.step()
    for parameter, expected in zip(parameters, reference, strict=True):
        assert torch.allclose(parameter.detach().cpu(), expected.detach())
    if options.get("capturable"):
        before = parameters[0].detach().clone()
        graph, _ = capture(ours.step)
        graph.replay()
        assert (parameters[0] < before).all()


def test_stats_and_unjudged_ops(cuda: EmulatedCUDA) -> None:
    """Stats counts launches, replays and syncs; an op that no probe asked a GPU about is named."""
    x = filled()
    graph, _ = capture(lambda: torch.special.bessel_j1(x + 1))
    graph.replay()
    before = cuda.stats["syncs"]
    x.sum().item()
    assert (cuda.stats["recorded"], cuda.stats["replays"], cuda.stats["syncs"] - before) == (2, 1, 1)
    assert cuda.unjudged_ops == {"aten::special_bessel_j1"}


# Threads


def test_another_thread_takes_part(cuda: EmulatedCUDA) -> None:
    """Inside in_thread() another thread sees the device, with a current stream of its own."""
    x, seen = filled(4, 1.0), []

    def work() -> None:
        with cuda.in_thread():
            seen.extend([torch.cuda.current_stream().stream_id, (x + 1).device.type, (x + 1).tolist()[0]])

    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [0, "cuda", 2.0]


def test_threads_compute_and_allocate_side_by_side(cuda: EmulatedCUDA) -> None:
    """Threads that draw, compute and free at once get right results and leave no block behind."""
    before, wrong = torch.cuda.memory_allocated(), []

    def work(value: float) -> None:
        with cuda.in_thread(), torch.cuda.stream(torch.cuda.Stream()):
            for size in range(1, 200):
                x = torch.full((size,), value, device="cuda")
                torch.rand(size, device="cuda")
                if (x * 2 + 1).sum().item() != size * (2 * value + 1):
                    wrong.append((value, size))

    threads = [threading.Thread(target=work, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.default_generators[0].get_offset() == 4 * 4 * 199


def test_a_capture_does_not_record_other_threads(cuda: EmulatedCUDA) -> None:
    """What another thread does on its own stream during a capture runs at once."""
    x = filled()

    def work() -> None:
        with cuda.in_thread():
            x.add_(1)

    def body() -> torch.Tensor:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * 2

    graph, y = capture(body)
    assert x.tolist() == [1.0] * 4
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_torchs_own_device_count_is_not_spoilt() -> None:
    """A reference to torch's own `device_count`, called on the emulation, answers afterwards what it did before."""
    count = torch.cuda.device_count
    before = count()
    with EmulatedCUDA():
        count()
    assert count() == before
