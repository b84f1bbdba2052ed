"""Twenty uses of Thunder's own CUDAGraphTransform, most of which show one of its faults.

They are to run in file order in one process (or one emulation): what a failed capture leaves behind shows in the next.
Each scenario returns plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.golden.probes.asking import DEVICE, error_line

import thunder
import torch
from thunder.transforms.cudagraph import CUDAGraphTransform

SCENARIOS: dict[str, Callable[[], Any]] = {}


def scenario(function: Callable[[], Any]) -> Callable[[], Any]:
    SCENARIOS[function.__name__] = function
    return function


def answers() -> dict[str, Any]:
    """Run all scenarios in file order; one that raises answers its error and the first error of the chain."""
    return {name: answer(name) for name in SCENARIOS}


def answer(name: str) -> Any:
    """Run one scenario."""
    try:
        return SCENARIOS[name]()
    except Exception as error:
        first: BaseException = error
        while first.__context__ is not None:
            first = first.__context__
        text = f"{error_line(error, 1000)} | first: {error_line(first, 1000)}"
        return text.replace("AcceleratorError", "CaptureError")[:300]


class _LeavesItemOut(CUDAGraphTransform):
    """Thunder's transform, with `.item()` kept out of regions."""

    def can_fuse(self, bsym: Any) -> bool:
        return bsym.sym.name != "item" and super().can_fuse(bsym)


def compiled(function: Any, transform: type = CUDAGraphTransform, **options: Any) -> tuple[Any, dict[Any, Any]]:
    """Return the function compiled with the transform, and the transform's dictionary of captured graphs."""
    instance = transform(**options)
    return thunder.jit(function, transforms=[instance]), instance.cuda_graph_runner.cuda_graph_cache


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two results are equal up to rounding."""
    return torch.allclose(left, right, rtol=1e-4, atol=1e-5)


@scenario
def a0_plain_function() -> list[Any]:
    """Right, but a second graph is captured because Thunder's key holds the inputs' requires_grad and strides."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y) * 2

    jitted, graphs = compiled(function)
    x, y = torch.randn(2, 3, 3, device=DEVICE)
    result = jitted(x, y)
    seen = [same(result, function(x, y)), str(result.device), len(graphs)]
    x = x + 1
    return [*seen, same(jitted(x, y), function(x, y)), len(graphs)]


@scenario
def a1_training_five_steps() -> list[bool]:
    torch.manual_seed(0)

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(DEVICE)

    module, reference = network(), network()
    reference.load_state_dict({name: value.clone() for name, value in module.state_dict().items()})
    jitted, _ = compiled(module)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1, foreach=False) for each in (module, reference)]
    seen = []
    for _step in range(5):
        x = torch.randn(6, 4, device=DEVICE)
        losses = []
        for optimizer, forward in zip(optimizers, (jitted, reference), strict=True):
            optimizer.zero_grad()
            loss = (forward(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seen.append(abs(losses[0] - losses[1]) < 1e-5)
    return seen


@scenario
def b2_outputs_clobbered_by_next_call() -> dict[str, bool]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1

    jitted, _ = compiled(function)
    first_input, second_input = torch.randn(2, 4, device=DEVICE)
    first = jitted(first_input)
    before = first.clone()
    second = jitted(second_input)
    return {
        "y1_unchanged": same(first, before),
        "same_memory": first.data_ptr() == second.data_ptr(),
        "y1_right": same(first, function(first_input)),
        "y2_right": same(second, function(second_input)),
    }


@scenario
def b3_item_left_outside_recaptures_every_call() -> list[int]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu((x + 1) * x.sum().item()) - 2

    jitted, graphs = compiled(function, _LeavesItemOut)
    counts = []
    for _call in range(5):
        x = torch.randn(3, device=DEVICE)
        assert same(jitted(x), function(x))
        counts.append(len(graphs))
    return counts


@scenario
def b4a_inplace_on_a_copied_input() -> dict[str, Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    jitted, _ = compiled(function)
    x = torch.zeros(3, device=DEVICE)
    result = jitted(x)
    return {"x": x.tolist(), "result": result.tolist()}


@scenario
def b4b_inplace_on_a_module_buffer() -> list[float]:
    """Three warm-up runs hit the live buffer."""

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))
            self.weight = torch.nn.Parameter(torch.ones(1), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1.0)
            return x * self.calls * self.weight

    module = Counter().to(DEVICE)
    jitted, _ = compiled(module)
    seen = []
    for _call in range(3):
        jitted(torch.ones(2, device=DEVICE))
        seen.append(module.calls.item())
    return seen


@scenario
def b4c_batchnorm_running_stats() -> dict[str, Any]:
    torch.manual_seed(0)
    module, reference = torch.nn.BatchNorm1d(2).to(DEVICE), torch.nn.BatchNorm1d(2).to(DEVICE)
    jitted, _ = compiled(module)
    x = torch.randn(8, 2, device=DEVICE) + 3
    with torch.no_grad():
        jitted(x)
        reference(x)
    ratio = module.running_mean / reference.running_mean
    return {
        "mean_right": same(module.running_mean, reference.running_mean),
        "ratio": [round(value, 2) for value in ratio.tolist()],
        "batches": module.num_batches_tracked.item(),
    }


@scenario
def b5_two_forwards_then_backward() -> dict[str, bool]:
    torch.manual_seed(0)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ w).sum()

    jitted, _ = compiled(function)
    w = torch.randn(3, 3, device=DEVICE, requires_grad=True)
    inputs = torch.randn(2, 2, 3, device=DEVICE)
    losses = [jitted(x, w) for x in inputs]
    losses[0].backward()
    gradient, found = w.grad.clone(), []
    for x in inputs:
        w.grad = None
        function(x, w).backward()
        found.append(same(gradient, w.grad))
    return {"grad_is_of_first": found[0], "grad_is_of_second": found[1]}


@scenario
def b5b_gradient_accumulation() -> list[float]:
    jitted, _ = compiled(lambda x, w: (x * w * w).sum())
    w = torch.ones(3, device=DEVICE, requires_grad=True)
    seen = []
    for value in (1.0, 10.0, 100.0):
        jitted(torch.full((3,), value, device=DEVICE), w).backward()
        seen.append(w.grad[0].item())
    return seen


@scenario
def b6_dropout_from_the_same_seed() -> list[bool]:
    """The first call differs: the warm-up draws."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + 1

    (jitted, _), plain = compiled(function), thunder.jit(function)
    x, seen = torch.ones(64, device=DEVICE), []
    for _call in range(3):
        torch.manual_seed(3)
        graphed = jitted(x).clone()
        torch.manual_seed(3)
        seen.append(same(graphed, plain(x)))
    return seen


def _frozen_linear(bias: bool) -> torch.nn.Sequential:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=bias), torch.nn.ReLU())
    return module.to(DEVICE).requires_grad_(False)


@scenario
def b7_parameter_storage_replaced() -> dict[str, bool]:
    module = _frozen_linear(bias=True)
    jitted, _ = compiled(module)
    x = torch.randn(2, 3, device=DEVICE)
    jitted(x)
    old, kept = module(x), module[0].weight.data
    module[0].weight.data = kept * 2
    result = jitted(x)
    return {"right": same(result, module(x)), "stale": same(result, old)}


@scenario
def b7b_parameter_storage_freed_and_reused() -> dict[str, Any]:
    module = _frozen_linear(bias=False)
    jitted, _ = compiled(module)
    x = torch.ones(2, 3, device=DEVICE)
    jitted(x)
    address = module[0].weight.data_ptr()
    module[0].weight.data = module[0].weight.data * 2
    other = torch.full((3, 3), 7.0, device=DEVICE)
    result = jitted(x)
    return {
        "right": same(result, module(x)),
        "reads_somebody_elses": result[0, 0].item(),
        "reused": other.data_ptr() == address,
    }


@scenario
def b9_cpu_ops_in_the_region() -> dict[str, Any]:
    jitted, _ = compiled(lambda x, host: (x.relu() + 1, (host + 1) * 2))
    x, host = torch.ones(3, device=DEVICE), torch.ones(3)
    first = jitted(x, host)[1].tolist()
    return {"first": first, "second": jitted(x, host * 10)[1].tolist()}


@scenario
def b10_share_mem_pool_without_tensor_inputs() -> Any:
    jitted, _ = compiled(lambda: torch.ones(3, device=DEVICE) * 2 + 1, share_mem_pool=True)
    return jitted().tolist()


@scenario
def b11_python_float_argument() -> list[Any]:
    """Right, at the price of a graph per value."""

    def function(x: torch.Tensor, s: float) -> torch.Tensor:
        return (x * s + 1) * s

    jitted, graphs = compiled(function)
    x = torch.ones(2, device=DEVICE)
    seen = [same(jitted(x, s), function(x, s)) for s in (1.0, 2.0, 3.0)]
    return [*seen, len(graphs)]


@scenario
def b12_output_is_a_view_of_the_static_input() -> dict[str, float]:
    jitted, _ = compiled(lambda x: (x.view(-1), x * 2 + 1))
    x = torch.ones(2, 2, device=DEVICE)
    view, _result = jitted(x)
    x.fill_(5.0)
    return {"view_follows_input": view[0].item()}


@scenario
def b13_inputs_alias_each_other() -> list[float]:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    jitted, _ = compiled(function)
    x = torch.zeros(3, device=DEVICE)
    return jitted(x, x[:]).tolist()


@scenario
def c1_item_captured() -> None:
    jitted, _ = compiled(lambda x: x * x.sum().item())
    jitted(torch.randn(3, device=DEVICE))


@scenario
def c2_cpu_captured() -> str:
    """Fails before it starts: the capture that failed above left the generator in capture mode."""
    jitted, _ = compiled(lambda x: (x.relu() + 1).cpu() * 2)
    return str(jitted(torch.randn(3, device=DEVICE)).device)


@scenario
def c3_host_constant_captured() -> list[float]:
    constant = torch.tensor([1.0, 2.0, 3.0])
    jitted, _ = compiled(lambda x, host: (x + 1) * host.to(DEVICE))
    return jitted(torch.ones(3, device=DEVICE), constant).tolist()
