"""Capture: what must not stand in a region that becomes a CUDA graph, looked for through subsymbols of any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cgverify.diagnostics import Note, Severity
from cgverify.ir import Op
from cgverify.verifier.region import Region
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import (
    CollectionProxy,
    Facts,
    NumberProxy,
    TensorProxy,
    device_of,
    is_host,
)
from cgverify.verifier.subject import Subject

_LEAVE_OUT = "leave the op out of the region: it then runs between two graphs"


def _judge(subject: Subject, reason: Callable[[Facts], str], message: Callable[[Region, Op], str]) -> Iterator[Finding]:
    """A finding per op of a captured region whose facts give a reason; a note where the user may vouch for the op.

    Nobody can vouch for an op whose very result is known to the host only, such as `item` and `nonzero`.
    """
    for region in subject.captured:
        for op in region.computing:
            why = reason(subject.facts(op))
            if not why:
                continue
            trusted = subject.facts(op).trusted and not _is_known_to_the_host(subject, op)
            yield Finding(
                f"{message(region, op)}{' (vouched for by the user)' if trusted else ''}",
                subject.inside(region, op),
                (Note(why), Note(f"`{region.name}` is called here", subject.at(region.op))),
                "" if trusted else _LEAVE_OUT,
                Severity.NOTE if trusted else None,
            )


def _is_known_to_the_host(subject: Subject, op: Op) -> bool:
    """Whether the host must know the result itself, as a number or for its shape."""
    return bool(subject.facts(op).dynamic) or any(isinstance(p, NumberProxy) for p in op.bsym.flat_proxy_outs)


@rule("CG201", "host-sync-in-graph")
def host_sync_in_graph(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No op of a captured region makes the host wait for the device: `item` under every id, `tolist`, comparisons
        to a Python bool, boolean masks as indices, solvers that read a status back.

    Why it is wrong
        A capture executes nothing, so there is no value to wait for, and CUDA raises "operation not permitted when
        stream is capturing". The random generator may stay unusable.

    Example
        [f1] = CUDAGraph0(x)
          # t0 = torch.sum(x)
          # f1 = Tensor.item(t0)

    Instead
        Leave the op between two regions.

    Not covered
        Ops of which it depends on library and size whether they wait: CG205. A solver that the user vouches for gets a
        note; an op whose result is a Python number, or has a shape that depends on values, cannot be vouched for.
    """
    yield from _judge(
        subject,
        lambda facts: facts.sync,
        lambda region, op: f"`{op.name}` in region `{region.name}` makes the host wait for the device",
    )


@rule("CG202", "host-tensor-in-graph")
def host_tensor_in_graph(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No op of a captured region reads, makes or moves a tensor in host memory, a 0-d one included.

    Why it is wrong
        Work on the host happens once, at capture: replays go on with the value of that moment, or read host memory
        that is gone.

    Example
        [t1] = CUDAGraph0(x, s)      # s: "cpu f32[]"
          # t1 = torch.mul(x, s)

    Instead
        Leave such ops between two regions, or move the tensor to the device before.

    Not covered
        Numbers: CG206.
    """
    for region in subject.captured:
        told: set[str] = set()
        for op in region.computing:
            hosts = [p.name for p in op.proxies() if is_host(p) and p.name not in told]
            told.update(hosts)
            transfer = subject.facts(op).transfer
            if not hosts and not transfer:
                continue
            what = f"the host tensor `{hosts[0]}`" if hosts else "host data"
            notes = (Note(transfer),) if transfer else ()
            yield Finding(
                f"`{op.name}` in region `{region.name}` works on {what}",
                subject.inside(region, op),
                (*notes, Note(f"`{region.name}` is called here", subject.at(region.op))),
                _LEAVE_OUT,
            )


@rule("CG203", "mixed-devices-in-graph")
def mixed_devices_in_graph(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        All device tensors of a captured region are on one device, the one that its plan names.

    Why it is wrong
        A graph is captured on a stream of one device: work on another device escapes the capture or breaks it.

    Example
        [t1, t2] = CUDAGraph0(x, y)  # x: "cuda:0 f32[4]", y: "cuda:1 f32[4]"

    Instead
        One region per device.

    Not covered
        Which stream an op uses inside.
    """
    for region in subject.captured:
        home = region.claim.device if region.claim is not None else ""
        for op in region.computing:
            devices = [device_of(p) for p in op.proxies() if isinstance(p, TensorProxy) and not is_host(p)]
            home = home or next(iter(devices), "")
            other = next((device for device in devices if device != home), None)
            if other is not None:
                yield Finding(
                    f"`{op.name}` in region `{region.name}` works on {other}, the region on {home}",
                    subject.inside(region, op),
                    (Note(f"`{region.name}` is called here", subject.at(region.op)),),
                    "put the ops of each device in regions of their own",
                )
                break


@rule("CG204", "data-dependent-shape-in-graph")
def data_dependent_shape_in_graph(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No op of a captured region has a result whose shape depends on values: `nonzero`, `unique`, `masked_select`,
        indexing with a boolean mask.

    Why it is wrong
        A graph replays the shapes of its capture, and finding the shape makes the host wait.

    Example
        [t0] = CUDAGraph0(x)
          # t0 = torch.nonzero(x)

    Instead
        Leave the op between two regions, or use a form of fixed shape (`where`, `nonzero_static`).

    Not covered
        Work of varying amount behind a fixed shape.
    """
    yield from _judge(
        subject,
        lambda facts: facts.dynamic,
        lambda region, op: f"`{op.name}` in region `{region.name}` has a result of unknown size",
    )


@rule("CG205", "unknown-op-in-graph")
def unknown_op_in_graph(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Every op of a captured region is known: by torch's schemas, by its decomposition, or by the op tables; none
        touches Python lists or other Python state; and of none it depends on library or size whether it waits.

    Why it is wrong
        An unknown op may make the host wait, write memory or draw random numbers, and what it does in Python happens
        at capture only.

    Example
        [t0] = CUDAGraph0(x)
          # t0 = my_kernel(x)

    Instead
        Leave it out, give its symbol a decomposition, or vouch for it with `capturable={"my_kernel"}`.

    Not covered
        Whether an op that the user vouches for deserves it: the report says that it was trusted.
    """
    yield from _judge(
        subject,
        lambda facts: facts.unknown or facts.uncertain,
        lambda region, op: f"`{op.name}` in region `{region.name}` is not known to be capturable",
    )
    for region in subject.captured:
        for op in region.computing:
            python = any(isinstance(p, CollectionProxy) for p in op.proxies())
            if (python or subject.facts(op).opaque) and not subject.facts(op).unknown:
                yield Finding(
                    f"`{op.name}` in region `{region.name}` touches Python state",
                    subject.inside(region, op),
                    (Note("a replay runs no Python"), Note(f"`{region.name}` is called here", subject.at(region.op))),
                    _LEAVE_OUT,
                )


@rule("CG206", "frozen-number")
def frozen_number(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No Python number that is only known at run time (the result of `item`, a symbolic shape) is an argument of a
        captured region, or a result of it.

    Why it is wrong
        A graph replays the number of its capture, or there is a capture for every value.

    Example
        f0 = Tensor.item(t0)
        [t1] = CUDAGraph0(x, f0)

    Instead
        Leave ops with such numbers between two regions, or feed the number through a tensor on the device.

    Not covered
        Numbers that the trace holds as constants: Thunder guards those. Numbers that a region itself computes from
        sizes of its tensors: a graph serves one shape.
    """
    for region in subject.captured:
        for proxy in (*region.op.bsym.flat_proxy_args, *region.op.bsym.flat_proxy_outs):
            if isinstance(proxy, NumberProxy):
                does = "returns" if proxy.name in region.outputs else "takes"
                yield Finding(
                    f"region `{region.name}` {does} the Python number `{proxy.name}`",
                    subject.at(region.op),
                    (Note("its value is known at run time only"),),
                    "leave the ops that need it between two regions",
                )
