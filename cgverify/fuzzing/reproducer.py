"""Writes a failure as one readable script, and its program beside it.

The script needs torch, Thunder and the transform under test; cgverify only makes Thunder importable and, where there
is no GPU, emulates one. Values are written out, so it does not depend on the fuzzer. Exit code 0: right; 1:
reproduced; 2: cannot run here.
"""

from __future__ import annotations

import inspect
import textwrap
from itertools import count
from pathlib import Path

from cgverify.fuzzing.history_source import HistoryWriter
from cgverify.fuzzing.invariants import INVARIANTS
from cgverify.fuzzing.program import Program, encode_program
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.trace_source import render_trace_source
from cgverify.fuzzing.tracing import Form

LOOK = '''
def content(value):
    """Return all that a caller sees of a value: for a tensor its bits, dtype, shape, strides, device, requires_grad."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__, repr(value)
    flat = value.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
    bits = bytes(flat.view(torch.uint8).tolist())
    return repr(flat.tolist()), bits, value.dtype, value.shape, value.stride(), str(value.device), value.requires_grad


def shared(tensors):
    """Return which tensors overlap in memory, and by how much."""
    spans = []
    for n, t in enumerate(tensors):
        if isinstance(t, torch.Tensor) and t.numel():
            last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
            spans.append((n, t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()))
    return [(i, j, b - a) for i, a, a_end in spans for j, b, b_end in spans if i < j and a < b_end and b < a_end]


def look(call, inputs, results):
    """Return what the caller sees right after a call."""
    yield from ((f"input {n} after call {call}", content(value)) for n, value in enumerate(inputs))
    yield from ((f"result {n} of call {call}", content(value)) for n, value in enumerate(results))
    yield f"memory shared by inputs and results of call {call}", shared([*inputs, *results])
    yield f"position of the CUDA generator after call {call}", content(torch.cuda.get_rng_state())
'''

MAIN_TARGET = """
def attempt(make):
    seen = []
    try:
        run(make, seen)
    except Exception as error:
        seen.append(("the calls", f"raise {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"))
    return seen


with nullcontext() if torch.cuda.is_available() else EmulatedCUDA(poison=True):
    expected = attempt(WITHOUT)
    found = attempt(WITH)
for (what, right), (also, wrong) in zip_longest(expected, found, fillvalue=("the calls", "stop here")):
    if (what, right) != (also, wrong):
        print(f"REPRODUCED: {also}")
        print(f"  without graphs: {right if what == also else what}")
        print(f"  with {TARGET}: {wrong}")
        sys.exit(1)
print("right: with and without graphs the caller sees the same")
"""

MAIN_BASE = '''
def near(a, b):
    """Whether two contents are the same but for rounding, strides, requires_grad and shared memory."""
    if not isinstance(a[0], list) or not isinstance(b[0], list):
        return a == b
    return a[2:4] == b[2:4] and all(
        x == y or (x != x and y != y) or isclose(x, y, rel_tol=1e-2, abs_tol=1e-3) for x, y in zip(a[0], b[0])
    )


with nullcontext() if torch.cuda.is_available() else EmulatedCUDA(poison=True):
    expected, found = [], []
    run(WITHOUT, expected)
    run(WITH, found)
for (what, right), (_, wrong) in zip(expected, found):
    if not what.startswith("memory") and not near(right, wrong):
        print(f"REPRODUCED: {what}")
        print(f"  eager PyTorch: {right}")
        print(f"  thunder.jit: {wrong}")
        sys.exit(1)
print("right: Thunder and eager PyTorch agree")
'''


def write_failure(folder: Path, key: str, program: Program, script: str) -> Path:
    """Write `key.json` and `key.py` unless they exist with the same content; return the script's path.

    The key holds a hash of the program, so an existing file with other content is an earlier run's account of the same
    program: it stays, and the new pair gets a number, the same for both.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".json": encode_program(program), ".py": script}
    names = (key if number == 1 else f"{key}-{number}" for number in count(1))
    name = next(name for name in names if all(_may_hold(folder / (name + end), text) for end, text in texts.items()))
    for end, text in texts.items():
        (folder / (name + end)).write_text(text, encoding="utf-8")
    return folder / f"{name}.py"


def _may_hold(path: Path, text: str) -> bool:
    """Whether a file is not there yet, or has this content already."""
    return not path.exists() or path.read_text(encoding="utf-8") == text


def render_reproducer(
    program: Program, invariant: str, call: int | None, evidence: str, target: Target, *, path: str, form: Form
) -> str:
    """Return the text of a script that shows a failure.

    Args:
        program: the reduced program.
        invariant: name of what it breaks.
        call: the call that shows it, or None.
        evidence: both sides in words.
        target: the transform under test.
        path: `jit` for a script around `thunder.jit`, `direct` for one that builds the trace.
        form: how RETURN looks in a trace built directly.
    """
    resolved = resolve_program(program)
    direct = path == "direct"
    subject = render_trace_source(resolved, form) if direct else render_source(resolved)
    writer = HistoryWriter(resolved, "build" if direct else "program", call)
    run = [
        "def run(make, seen):",
        '    """Make the calls; add what the caller sees to `seen`."""',
        *(f"    {line}" if line else "" for line in writer.write(program.history)),
        "",
    ]
    heading = _heading(invariant, call, evidence, target)
    return "\n".join([heading, _imports(target, direct), "", subject, LOOK, "", *run, _main(target, direct, form)])


def _heading(invariant: str, call: int | None, evidence: str, target: Target) -> str:
    meaning = (inspect.getdoc(INVARIANTS[invariant]) or "").splitlines()[0]
    where = "" if call is None else f" (call {call}, counted from 0)"
    text = [
        f'"""{invariant}: {meaning}',
        "",
        *textwrap.wrap(f"{evidence.splitlines()[0]}{where}".replace("\\", "/"), 110),
        "",
        f"Found by cgverify's fuzzer with the target {target.name}.",
        "Exit code 0: right; 1: reproduced; 2: cannot run here.",
        '"""',
        "",
    ]
    return "\n".join(text)


def _imports(target: Target, direct: bool) -> str:
    lines = ["import sys", "from contextlib import nullcontext", "from itertools import zip_longest"]
    lines += ["from math import inf, isclose, nan", "", "try:"]
    lines.append("    import cgverify  # makes this Thunder importable with this PyTorch")
    lines += ["    import thunder", "    import torch", "    from cgverify.emulation import EmulatedCUDA"]
    if direct:
        lines += [
            "    from thunder.core import devices, dtypes, prims",
            "    from thunder.core.codeutils import SigInfo",
            "    from thunder.core.proxies import ProxyTag, TensorProxy",
            "    from thunder.core.trace import TraceCtx, tracectx",
            "    from thunder.core.transform_common import unwrap_return_value",
            "    from thunder.executors import pythonex, torchex",
            "    from thunder.executors.passes import del_last_used",
        ]
    if target.imports:
        lines.append(f"    {target.imports}")
    lines += ["except ImportError as error:", '    print(f"cannot run here: {error}")', "    sys.exit(2)", ""]
    return "\n".join(lines)


def _main(target: Target, direct: bool, form: Form) -> str:
    """Return the lines that run both sides and compare."""
    if direct:
        compile_it = f"{'unwrap_return_value(trace)' if form == 'dict' else 'trace'}.python_callable()"
        without = f"def without(build):\n    trace = build()\n    return {compile_it}\n\n\n"
        act = f"    trace = {target.expression}.transform_trace_post_optimization(trace)\n" if target.make else ""
        with_ = f"def with_target(build):\n    trace = build()\n{act}    print(trace)\n    return {compile_it}\n\n"
        helpers = f"\n{without}{with_}"
        names = "without", "with_target"
    else:
        helpers = ""
        eager = "lambda function: function"
        graphed = f"lambda function, graphs={target.expression}: thunder.jit(function, transforms=[graphs])"
        names = ("thunder.jit", graphed) if target.make else (eager, "thunder.jit")
    settings = f"\nTARGET = {target.name!r}\nWITHOUT = {names[0]}\nWITH = {names[1]}\n"
    return helpers + settings + (MAIN_TARGET if target.make else MAIN_BASE)
