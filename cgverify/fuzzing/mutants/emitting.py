"""Faults of the emitted trace: regions with wrong inputs, outputs or bodies, and DELs in wrong places (group G)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.ir import TraceView
from cgverify.plan import Region
from cgverify.runtime.region import GraphedRegion
from cgverify.transform import driver, emit, partition
from cgverify.transform.partition import Phase
from cgverify.transform.roles import choose_region

from thunder.core import prims
from thunder.core.prims import PrimIDs
from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

_emit_body = emit.emit_body
_emit_region = emit.emit_region
_place_dels = emit.place_dels
_gather = partition._gather
_STRUCTURAL = (PrimIDs.RETURN, PrimIDs.UNPACK_TRIVIAL, PrimIDs.COMMENT)


def _deletes_its_result(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    body = _emit_body(name, bsyms, inputs, outputs)
    *ops, last = body.bound_symbols
    body.bound_symbols = [*ops, *(prims.python_del.bind(proxy, output=None) for proxy in outputs[:1]), last]
    return body


class DeletedBeforeReturn(Mutant):
    """A region's body deletes what it returns: `del t0` stands before `return [t0]`."""

    faults = ("G01",)
    code = "CG102"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _deletes_its_result),)


def _dels_after_first_use(bsyms: Any, kept: Any) -> list[BoundSymbol]:
    done, placed = set(kept), []
    for bsym in bsyms:
        if bsym.sym.id is PrimIDs.DEL:
            continue
        placed.append(bsym)
        if bsym.sym.id not in _STRUCTURAL:
            doomed = {proxy.name: proxy for proxy in bsym.flat_proxy_args if proxy.name not in done}
            done |= doomed.keys()
            placed += [prims.python_del.bind(proxy, output=None) for proxy in doomed.values()]
    return placed


class DeletedAfterFirstUse(Mutant):
    """DELs stand after the first use of a value instead of the last."""

    faults = ("G01",)
    code = "CG102"
    shows = "static"
    in_rewrite = ((emit, "place_dels", _dels_after_first_use),)


def _dels_twice(bsyms: Any, kept: Any) -> list[BoundSymbol]:
    placed = _place_dels(bsyms, kept)
    return [again for bsym in placed for again in ((bsym, bsym) if bsym.sym.id is PrimIDs.DEL else (bsym,))]


class DeletedTwice(Mutant):
    """Every DEL stands there twice."""

    faults = ("G01",)
    code = "CG105"
    shows = "static"
    in_rewrite = ((emit, "place_dels", _dels_twice),)


def _without_last_output(*args: Any) -> Region:
    region = choose_region(*args)
    return replace(region, outputs=region.outputs[:-1])


class DroppedOutput(Mutant):
    """A region does not return the last value that is needed after it."""

    faults = ("G03",)
    code = "CG101"
    shows = "static"
    in_rewrite = ((driver, "choose_region", _without_last_output),)


def _takes_one_less(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    return _emit_body(name, bsyms, inputs[:-1], outputs)


class MissingInput(Mutant):
    """A region's body takes one parameter less than it is called with."""

    faults = ("G03",)
    code = "CG103"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _takes_one_less),)


def _backwards(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    return _emit_body(name, bsyms[::-1], inputs, outputs)


class ReversedBody(Mutant):
    """The ops of a region stand in reverse order in its body."""

    faults = ("G02",)
    code = "CG101"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _backwards),)


def _alike(one: Proxy, other: Proxy) -> bool:
    tensors = isinstance(one, TensorProxy) and isinstance(other, TensorProxy)
    return tensors and (one.shape, one.dtype) == (other.shape, other.dtype)


def _swap_first_alike(values: Sequence[Proxy]) -> list[Proxy]:
    swapped = list(values)
    for i, one in enumerate(swapped):
        for j in range(i + 1, len(swapped)):
            if _alike(one, swapped[j]):
                swapped[i], swapped[j] = swapped[j], one
                return swapped
    return swapped


def _swapped_arguments(view: TraceView, region: Region, make_callable: Any) -> BoundSymbol:
    bsym = _emit_region(view, region, make_callable)
    return bsym.from_bsym(args=tuple(_swap_first_alike(bsym.args)))


class SwappedArguments(Mutant):
    """A region is called with two inputs of one shape and dtype in the wrong order."""

    faults = ("G02", "G05")
    code = "CG501"
    shows = "static"
    in_rewrite = ((emit, "emit_region", _swapped_arguments),)


def _swapped_outputs(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    return _emit_body(name, bsyms, inputs, _swap_first_alike(outputs))


class SwappedOutputs(Mutant):
    """A region's body returns two values of one shape and dtype in the wrong order."""

    faults = ("G02", "G05")
    code = "CG501"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _swapped_outputs),)


def _with_another_number(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    changed = list(bsyms)
    for k, bsym in enumerate(changed):
        for position, value in enumerate(bsym.args):
            if isinstance(value, float) and not isinstance(value, bool):
                args = (*bsym.args[:position], value + 1.0, *bsym.args[position + 1 :])
                changed[k] = bsym.from_bsym(args=args)
                return _emit_body(name, changed, inputs, outputs)
    return _emit_body(name, bsyms, inputs, outputs)


class AnotherNumber(Mutant):
    """A region's body holds another constant than the trace: that of an earlier call, say."""

    faults = ("B01",)
    code = "CG501"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _with_another_number),)


class ShadowedGlobal(Mutant):
    """A region is called like a global that the trace uses."""

    faults = ("G02",)
    code = "CG109"
    shows = "static"
    in_rewrite = ((driver, "free_names", lambda view: iter(["torch"] * len(view.ops))),)


def _phases_with(change: Callable[[Phase, Phase | None], Phase]) -> Callable[..., list[Phase]]:
    def gather(phases: dict[int, int], colours: dict[int, str | None]) -> list[Phase]:
        found = _gather(phases, colours)
        return [change(phase, found[k - 1] if k else None) for k, phase in enumerate(found)]

    return gather


def _last_op_again(phase: Phase, before: Phase | None) -> Phase:
    if before is not None and before.device is not None and phase.device is None:
        return Phase((before.ops[-1], *phase.ops), None)
    return phase


class DuplicatedOp(Mutant):
    """The last op of a region runs again after it, un-graphed."""

    faults = ("G06", "A05")
    code = "CG503"
    shows = "static"
    in_rewrite = ((partition, "_gather", _phases_with(_last_op_again)),)


def _one_op_late(phase: Phase, before: Phase | None) -> Phase:
    return Phase(phase.ops[1:], phase.device) if phase.device is not None and len(phase.ops) > 1 else phase


class LateBoundary(Mutant):
    """A region begins one op too late, and that op is in none."""

    faults = ("G06", "G03")
    code = "CG101"
    shows = "static"
    in_rewrite = ((partition, "_gather", _phases_with(_one_op_late)),)


def _without_first_write(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    kept: list[BoundSymbol] = []
    renamed: dict[Any, Proxy] = {}
    for bsym in bsyms:
        if bsym.sym.name == "copy_" and not renamed:
            renamed = {variableify(bsym.output): bsym.args[1]}
        else:
            kept.append(bsym.from_bsym_swap_proxies(renamed, skip_output=True))
    return _emit_body(name, kept, inputs, [renamed.get(variableify(proxy), proxy) for proxy in outputs])


class DroppedWrite(Mutant):
    """The first write of a region is removed from its body, as if it were dead code."""

    faults = ("A01", "G07")
    code = "CG401"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _without_first_write),)


class ForgottenWrite(Mutant):
    """The plan calls written inputs unwritten, so nothing is copied back to the caller."""

    faults = ("A01",)
    code = "CG401"
    shows = "static"

    def _make_callable(self, region: Region, body: TraceCtx) -> GraphedRegion:
        inputs = tuple(replace(entry, written=False) for entry in region.inputs)
        return super()._make_callable(replace(region, inputs=inputs), body)
