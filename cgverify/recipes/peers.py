"""The four ways a recipe runs a module, and what is printed about each."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import cgverify
from cgverify.loading import CheckError

import thunder
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from thunder.core.transform_common import Transform
from thunder.plugins import ReduceOverhead as ThunderReduceOverhead
from thunder.recipes import BaseRecipe
from thunder.transforms.cudagraph import CUDAGraphTransform as ThunderGraphs

EAGER, THUNDER, THUNDER_GRAPHS, CGVERIFY = PEERS = ("eager", "thunder", "thunder-graphs", "cgverify")

RIGHT = "right"
"""The verdict on a peer whose results are the yardstick's."""

ENTRIES = ("jit", "compile", "fx")
"""Thunder's entry points: `thunder.jit`, `thunder.compile` with a plugin, `thunder.dynamo.thunderfx`."""

WIDTH = 120
"""Columns where the output is no terminal."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one peer did.

    Attributes:
        peer: one of `PEERS`.
        first_s: seconds of the first run, with tracing, compiling and captures.
        rate: what the recipe counts, per second, in a later run; None if the peer failed.
        verdict: `right`, `wrong` or `failed`, and how.
        graphs: live graphs of cgverify's transform; None for the others.
    """

    peer: str
    first_s: float
    rate: float | None
    verdict: str
    graphs: int | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A module made ready: what is called in its place, and cgverify's transforms in it."""

    call: Callable[..., torch.Tensor]
    transforms: tuple[Transform, ...] = ()

    def graphs(self) -> int | None:
        """Live graphs of cgverify's transforms."""
        ours = [transform for transform in self.transforms if isinstance(transform, cgverify.CUDAGraphTransform)]
        return sum(transform.stats().graphs for transform in ours) if ours else None


def compile_module(peer: str, module: torch.nn.Module, entry: str = "jit") -> Compiled:
    """Makes a module ready for one peer.

    Args:
        peer: one of `PEERS`.
        module: on the device; compiled in place, as Thunder does.
        entry: one of `ENTRIES`; of no meaning for eager.

    Raises:
        ValueError: there is no such peer or entry.
    """
    if peer not in PEERS or entry not in ENTRIES:
        raise ValueError(f"no peer {peer!r} or no entry {entry!r}: choose among {PEERS} and {ENTRIES}")
    if peer == EAGER:
        return Compiled(module)
    if entry == "compile":
        plugins = {THUNDER: [], THUNDER_GRAPHS: [ThunderReduceOverhead()], CGVERIFY: [cgverify.ReduceOverhead()]}[peer]
        compiled = thunder.compile(module, recipe=BaseRecipe(fuser="torch.compile"), plugins=plugins)
        return Compiled(compiled, tuple(t for plugin in plugins for t in getattr(plugin, "transforms", ())))
    transforms = {THUNDER: [], THUNDER_GRAPHS: [ThunderGraphs()], CGVERIFY: [cgverify.CUDAGraphTransform()]}[peer]
    if entry == "fx":
        from thunder.dynamo import thunderfx

        return Compiled(thunderfx(module, transforms=list(transforms)), tuple(transforms))
    return Compiled(thunder.jit(module, transforms=list(transforms)), tuple(transforms))


def compile_callable(peer: str, function: Callable[..., Any]) -> Any:
    """A function or module under `thunder.jit` for one of the peers that use Thunder."""
    transforms = {THUNDER: [], THUNDER_GRAPHS: [ThunderGraphs()], CGVERIFY: [cgverify.CUDAGraphTransform()]}[peer]
    return thunder.jit(function, transforms=list(transforms))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every recipe has."""
    parser.add_argument("--device", default="auto", choices=("auto", "emulated", "cuda"), help="where tensors live")
    parser.add_argument("--entry", default="jit", choices=ENTRIES, help="thunder.jit, thunder.compile or thunderfx")
    parser.add_argument("--peers", default=",".join(PEERS), help="which of %(default)s, separated by commas")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON in place of the table")


def choose_peers(wanted: str) -> list[str]:
    """The peers that `wanted` lists, in the order of `PEERS`, with eager, the yardstick, always among them.

    Raises:
        CheckError: there is no such peer.
    """
    names = {name.strip() for name in wanted.split(",")} | {EAGER}
    unknown = sorted(names - set(PEERS))
    if unknown:
        raise CheckError(f"no peer is called {unknown[0]!r}: choose among {', '.join(PEERS)}")
    return [name for name in PEERS if name in names]


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps the warnings of PyTorch and Thunder out of a table of figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run_recipe(measure: Callable[[str], Row], peers: Sequence[str]) -> list[Row]:
    """Runs each peer, and says on standard error which is done; one that raises gets a row that says so."""
    rows = []
    for peer in peers:
        try:
            row = measure(peer)
        except Exception as error:
            line = next(iter(str(error).splitlines()), "")
            row = Row(peer, 0.0, None, f"failed: {type(error).__name__}: {line}"[:90])
        print(f"{peer}: {row.verdict}", file=sys.stderr)
        rows.append(row)
    return rows


def print_rows(title: str, unit: str, rows: Sequence[Row]) -> None:
    """A table: first run, rate, speed-up over eager and over Thunder, verdict."""
    rates = {row.peer: row.rate for row in rows}
    table = Table(title=title, title_justify="left", pad_edge=False)
    for heading in ("peer", "first run s", unit, "/eager", "/thunder", "graphs"):
        table.add_column(heading, justify="left" if heading == "peer" else "right", no_wrap=True)
    table.add_column("results")
    for row in rows:
        ratios = (_ratio(row.rate, rates.get(EAGER)), _ratio(row.rate, rates.get(THUNDER)))
        rate = "-" if row.rate is None else f"{row.rate:,.1f}"
        graphs = "-" if row.graphs is None else str(row.graphs)
        table.add_row(row.peer, f"{row.first_s:.1f}", rate, *ratios, graphs, escape(row.verdict))
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else WIDTH
    console.print(table)


def describe(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [asdict(row) for row in rows]


def is_right(rows: Sequence[Row]) -> bool:
    """Whether cgverify, if it ran, is right."""
    return all(row.verdict == RIGHT for row in rows if row.peer == CGVERIFY)


def _ratio(rate: float | None, base: float | None) -> str:
    return "-" if rate is None or not base else f"{rate / base:.2f}"
