"""Generates tokens with a small GPT and a static cache of keys and values: ``python -m cgverify.recipes.generate``.

Prints tokens per second for each peer, and whether its tokens are eager's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cgverify.checking import open_device
from cgverify.loading import CheckError
from cgverify.recipes.gpt import GPT, Decoder, GPTConfig, generate
from cgverify.recipes.peers import (
    RIGHT,
    Row,
    add_options,
    choose_peers,
    compile_module,
    describe,
    is_right,
    print_rows,
    quiet,
    run_recipe,
)

import torch


@dataclass(frozen=True, slots=True)
class Setting:
    """What is generated.

    Attributes:
        config: of the model.
        batch: sequences at once.
        prompt: tokens of each that are given.
        count: tokens of each that follow.
    """

    config: GPTConfig
    batch: int = 1
    prompt: int = 8
    count: int = 16


SMALL = Setting(GPTConfig(vocabulary=64, context=32, width=32, heads=2, layers=1))
"""For the emulation, where times say nothing."""

LARGE = Setting(GPTConfig(vocabulary=8192, context=512, width=512, heads=8, layers=3), prompt=32, count=256)
"""For a GPU: every op is so small that the host is the limit."""


def run_peers(setting: Setting, peers: Sequence[str], entry: str = "jit") -> list[Row]:
    """Generates three times with each peer, compares the last tokens with eager's, times the faster of the last two."""
    torch.manual_seed(0)
    model = GPT(setting.config).to("cuda").requires_grad_(False).eval()
    prompt = torch.randint(setting.config.vocabulary, (setting.batch, setting.prompt), device="cuda")
    wanted = generate(Decoder(model, setting.batch), prompt, setting.count)

    def measure(peer: str) -> Row:
        compiled = compile_module(peer, Decoder(model, setting.batch), entry)
        times = []
        for _ in range(3):
            started = time.perf_counter()
            tokens = generate(compiled.call, prompt, setting.count)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
        wrong = int((tokens != wanted).sum())
        verdict = f"wrong: {wrong} of {wanted.numel()} tokens differ from eager's" if wrong else RIGHT
        return Row(peer, times[0], wanted.numel() / min(times[1:]), verdict, compiled.graphs())

    return run_recipe(measure, peers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the recipe; 0 if cgverify's tokens are eager's, 1 if not, 2 if it cannot run here."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.recipes.generate", description=__doc__.splitlines()[0])
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        peers = choose_peers(options.peers)
        with quiet(), open_device(options.device) as device:
            setting = SMALL if device == "emulated" else LARGE
            rows = run_peers(setting, peers, options.entry)
    except CheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"format": "cgverify-generate", "version": 1, "device": device, "rows": describe(rows)}))
    else:
        config = setting.config
        title = f"GPT, {config.layers} layers of width {config.width}, {setting.count} tokens after {setting.prompt}"
        print_rows(f"{title}, batch {setting.batch}, {device}", "tokens/s", rows)
    return 0 if is_right(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
