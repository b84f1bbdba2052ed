"""Real models on a real device: Thunder's entry points that the emulation cannot run, and compiled losses in graphs."""

from __future__ import annotations

from cgverify.recipes import generate, promises, train
from cgverify.recipes.peers import CGVERIFY, EAGER, RIGHT, THUNDER, quiet
from cgverify.thunder_compat import has_thunderfx

import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.skipif(not has_thunderfx(), reason="thunderfx of Thunder 0.2.6 needs PyTorch 2.11")
def test_generation_through_thunderfx() -> None:
    """Through Dynamo, with parameters and caches as plain arguments, the tokens are eager's."""
    with quiet():
        rows = generate.run_peers(generate.SMALL, [EAGER, CGVERIFY], "fx")
    assert [row.verdict for row in rows] == [RIGHT, RIGHT]
    assert rows[1].graphs == 2


def test_training_through_compiled_regions() -> None:
    """Where torch.compile fuses a loss and its backward, both are graphed, and training is Thunder's bit for bit."""
    with quiet():
        rows = train.run_peers(train.SMALL["gpt"], [THUNDER, CGVERIFY], steps=4)
    assert [row.verdict for row in rows] == [RIGHT, RIGHT]
    assert rows[1].graphs == 2


def test_promises() -> None:
    """What holds on the emulation holds here: Thunder and cgverify keep every claim of README.md's table."""
    with quiet():
        rows = promises.try_all("cuda")
    assert [row.claim for row in rows if (row.held[THUNDER], row.held[CGVERIFY]) != ("yes", "yes")] == []
