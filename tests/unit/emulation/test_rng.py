"""Generators of the emulated device."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.emulation import EmulatedCUDA
from tests.golden.probes.asking import capture

import pytest
import torch


@pytest.fixture
def cuda() -> Iterator[EmulatedCUDA]:
    with EmulatedCUDA() as device:
        yield device


def draw(generator: torch.Generator | None = None) -> torch.Tensor:
    return torch.rand(8, device="cuda", generator=generator)


def test_a_seed_decides_the_numbers(cuda: EmulatedCUDA) -> None:
    """The same seed gives the same numbers, another seed or a later draw gives others."""
    torch.manual_seed(1)
    first, second = draw(), draw()
    torch.manual_seed(1)
    assert torch.equal(draw(), first)
    assert torch.equal(draw(), second)
    assert not torch.equal(first, second)
    torch.manual_seed(2)
    assert not torch.equal(draw(), first)


def test_device_draws_leave_the_cpu_generator_alone(cuda: EmulatedCUDA) -> None:
    """Random numbers of the host are those it gives without a device."""
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    draw()
    torch.nn.functional.dropout(torch.ones(4, device="cuda"))
    assert torch.equal(torch.rand(4), expected)


def test_torch_cuda_random_functions(cuda: EmulatedCUDA) -> None:
    """torch.cuda's own functions seed, save and restore the default generator."""
    torch.cuda.manual_seed_all(7)
    assert torch.cuda.initial_seed() == 7
    state = torch.cuda.get_rng_state()
    first = draw()
    torch.cuda.set_rng_state(state)
    assert torch.equal(draw(), first)
    with torch.random.fork_rng(devices=[0]):
        draw()
    assert torch.cuda.default_generators[0].get_offset() == 4


def test_own_generators(cuda: EmulatedCUDA) -> None:
    """torch.Generator("cuda") is emulated, others are torch's, and both are torch.Generator."""
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.Generator(), torch.Generator)
    assert generator.device == torch.device("cuda:0")
    first = draw(generator)
    assert torch.equal(draw(torch.Generator(device="cuda").manual_seed(3)), first)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        draw(torch.Generator())


def test_state_is_sixteen_bytes_of_seed_and_offset(cuda: EmulatedCUDA) -> None:
    """get_state holds seed and offset, set_state takes both or the seed alone, and other sizes are refused."""
    generator = torch.Generator(device="cuda").manual_seed(2**40 + 1)
    draw(generator)
    state = generator.get_state()
    assert state.view(torch.int64).tolist() == [2**40 + 1, 4]
    generator.set_state(state[:8])
    assert (generator.initial_seed(), generator.get_offset()) == (2**40 + 1, 0)
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(state[:7])
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        generator.set_offset(3)


def test_clone_state_is_independent_and_graphsafe_get_state_is_shared(cuda: EmulatedCUDA) -> None:
    """A clone goes its own way; the state got graph-safely moves with its generator."""
    generator = torch.cuda.default_generators[0]
    clone, shared = generator.clone_state(), generator.graphsafe_get_state()
    draw()
    assert (clone.get_offset(), shared.get_offset()) == (0, 4)


def test_graphs_stay_with_the_state_they_were_captured_with(cuda: EmulatedCUDA) -> None:
    """After the default generator adopts another state, an old graph still moves the old one."""
    torch.manual_seed(3)
    graph, drawn = capture(draw)
    generator = torch.cuda.default_generators[0]
    old, new = generator.graphsafe_get_state(), generator.clone_state()
    generator.graphsafe_set_state(new)
    graph.replay()
    first = drawn.clone()
    assert (old.get_offset(), new.get_offset()) == (4, 0)
    assert torch.equal(draw(), first)
    assert (old.get_offset(), new.get_offset()) == (4, 4)


def test_two_registered_states_in_one_graph(cuda: EmulatedCUDA) -> None:
    """A graph that registered two generators moves both at each replay."""
    one, other = (torch.Generator(device="cuda").manual_seed(seed) for seed in (1, 2))
    graph = torch.cuda.CUDAGraph()
    for generator in (one, other):
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        first, second, third = draw(one), draw(other), draw(one)
    graph.replay()
    assert (one.get_offset(), other.get_offset()) == (8, 4)
    one.manual_seed(1)
    other.manual_seed(2)
    assert torch.equal(draw(one), first)
    assert torch.equal(draw(other), second)
    assert torch.equal(draw(one), third)


def test_a_failed_capture_leaves_the_generator_in_capture_mode(cuda: EmulatedCUDA) -> None:
    """Eager draws fail until the state is swapped for a clone taken before, or until a capture succeeds."""
    generator = torch.cuda.default_generators[0]
    clone, x = generator.clone_state(), torch.ones(3, device="cuda")
    for repair in (lambda: generator.graphsafe_set_state(clone), lambda: capture(lambda: x + 1)):
        with pytest.raises(torch.AcceleratorError):
            capture(lambda: x.sum().item())
        with pytest.raises(RuntimeError, match="Offset increment outside graph capture encountered unexpectedly"):
            draw()
        repair()
        assert draw().shape == (8,)


@pytest.mark.parametrize("call", ["get_offset", "seed", "set_offset", "clone_state"])
def test_refused_during_a_capture(cuda: EmulatedCUDA, call: str) -> None:
    """Reading or setting the offset, reseeding and cloning the state are refused while the stream is capturing."""
    generator, x = torch.cuda.default_generators[0], torch.ones(3, device="cuda")
    arguments = (4,) if call == "set_offset" else ()

    def body() -> torch.Tensor:
        with pytest.raises(RuntimeError, match="during CUDA graph capture"):
            getattr(generator, call)(*arguments)
        return x + 1

    graph, y = capture(body)
    graph.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]
