"""Does a capture allow a snippet, and if not, what do the call and the end of the capture say?

An answer is a list: "eager ..." if the snippet fails outside a capture too, then "ok" or "op ..." and, if the capture
itself became invalid, "end ...". "AFTER ..." means that the next capture failed: the process is no longer of use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.golden.probes.asking import DEVICE, capture, error_line

import torch
import torch.nn.functional as F


def answers(snippets: Mapping[str, str]) -> dict[str, list[str]]:
    """Judge every snippet (name -> expression), in one process."""
    return {name: judge(name, source) for name, source in snippets.items()}


def warm_up() -> None:
    """Load the libraries that refuse to be loaded in a capture."""
    F.relu(torch.randn(4, 4, device=DEVICE) @ torch.randn(4, 4, device=DEVICE))
    F.conv2d(torch.randn(1, 1, 4, 4, device=DEVICE), torch.randn(1, 1, 4, 4, device=DEVICE))


def judge(name: str, source: str) -> list[str]:
    """Run one snippet eagerly, then in a capture."""
    code = compile(source, name, "eval")
    found: list[str] = []
    try:
        eval(code, environment())
    except Exception as error:
        found.append(f"eager {error_line(error)}")
    variables = environment()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            try:
                eval(code, variables)
            except BaseException as error:
                found.append(f"op {error_line(error)}")
                raise
        found.append("ok")
    except Exception as error:
        if not found or error_line(error) not in found[-1]:
            found.append(f"end {error_line(error)}")
    try:
        graph, _ = capture(lambda: variables["x"] + 1)
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:
        found.append(f"AFTER {error_line(error)}")
    return found


def environment() -> dict[str, Any]:
    """Return the names that snippets use.

    On the device: x, y and p (positive) are float32[4, 4], w is one that requires grad, n int64 and b bool [4, 4],
    i int64[4], image float32[1, 4, 4, 4]. Names with h, and tg, are on the host.
    """
    torch.manual_seed(0)
    x, y = torch.randn(4, 4, device=DEVICE), torch.randn(4, 4, device=DEVICE)
    replayable, _ = capture(lambda: y * 2)
    w = torch.full((4, 4), 0.5, device=DEVICE).requires_grad_()
    w.grad = torch.ones(4, 4, device=DEVICE)
    return {
        "torch": torch,
        "F": F,
        "DEVICE": DEVICE,
        "capture": capture,
        "x": x,
        "y": y,
        "w": w,
        "v": torch.randn(32, device=DEVICE),
        "e": torch.eye(4, device=DEVICE),
        "i": torch.tensor([0, 1, 2, 1], device=DEVICE),
        "m1": torch.tensor([True, False, False, False], device=DEVICE),
        "rm": torch.zeros(4, device=DEVICE),
        "rv": torch.ones(4, device=DEVICE),
        "lp": torch.randn(5, 1, 4, device=DEVICE).log_softmax(2),
        "h": torch.randn(4, 4),
        "h0": torch.tensor(2.0),
        "h1": torch.tensor([1, 2]),
        "hi": torch.tensor([0, 1]),
        "tg": torch.tensor([[1, 2]]),
        "p": torch.rand(4, 4, device=DEVICE) + 0.1,
        "n": torch.randint(1, 5, (4, 4), device=DEVICE),
        "b": torch.rand(4, 4, device=DEVICE) > 0.5,
        "image": torch.randn(1, 4, 4, 4, device=DEVICE),
        "g0": replayable,
        "gen": torch.Generator(device=DEVICE),
        "doomed": [torch.ones(3, device=DEVICE)],
    }
