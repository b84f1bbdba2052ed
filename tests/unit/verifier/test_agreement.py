"""The verifier's facts against the transform's tables: two derivations, every difference listed with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cgverify.transform import tables
from cgverify.verifier import semantics

import pytest
from thunder.executors import torchex

OPS = {name: symbol for name, symbol in torchex.ex.opmap.items() if not name.endswith("_vjp")}
GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "legality_h200_torch2.11.json").read_text(encoding="utf-8"))

# Only the transform says these may share memory: it is cautious, and running them shows fresh memory.
ONLY_TRANSFORM_ALIASES = frozenset({"float_power", "pad", "repeat", "tile", "torch_pad_prim_impl"})
# The transform decides by the argument `dropout_p`, the verifier too, from the schema's tag on.
ONLY_VERIFIER_DRAWS = frozenset({"scaled_dot_product_attention"})


def _shares(symbol: Any) -> bool:
    rule = semantics.signature(symbol)
    return rule.identity or bool(rule.views)


def test_aliasing() -> None:
    """Both sides agree which capturable ops may return an argument's memory, but for the listed ones."""
    theirs = {name for name in OPS if name in tables.MAY_ALIAS}
    ours = {name for name in OPS if name in tables.CAPTURABLE and _shares(OPS[name])}
    assert theirs - {name for name in OPS if _shares(OPS[name])} == ONLY_TRANSFORM_ALIASES
    assert ours - theirs == set()


def test_draws() -> None:
    """Both sides agree which capturable ops draw random numbers, but for the listed ones."""
    theirs = {name for name in OPS if name in tables.RANDOM and name in tables.CAPTURABLE}
    ours = {name for name in OPS if name in tables.CAPTURABLE and semantics.signature(OPS[name]).random}
    assert theirs - ours == set()
    assert ours - theirs == ONLY_VERIFIER_DRAWS


def test_capturable_ops_are_known() -> None:
    """The verifier knows every op that the transform may capture, and doubts none of them."""
    doubted = {}
    for name in tables.CAPTURABLE & OPS.keys():
        rule = semantics.signature(OPS[name])
        if not rule.known or rule.sync or rule.transfer or rule.dynamic or rule.uncertain or rule.opaque:
            doubted[name] = rule
    assert doubted == {}


def test_syncs_are_refused_by_both() -> None:
    """No op that makes the host wait is capturable to the transform."""
    waiting = {name for name, symbol in OPS.items() if semantics.signature(symbol).sync}
    assert waiting & tables.CAPTURABLE == set()


# Recorded questions that are one op with any arguments, by the op's id.
UNCONDITIONAL = {
    "item": "item",
    "nonzero": "nonzero",
    "masked_select": "masked_select",
    "unique_consecutive": "unique_consecutive",
    "equal": "equal",
    "tolist": "tolist",
    "bincount": "bincount",
    "tensor_list": "tensor",
    "new_tensor": "new_tensor",
    "is_nonzero": "is_nonzero",
    "inv": "inv",
    "solve": "solve",
    "cholesky": "cholesky",
    "svd": "svd",
    "eigh": "eigh",
    "combinations": "combinations",
    "ctc": "ctc_loss",
    "masked_fill": "masked_fill",
    "index_select": "index_select",
    "gather": "gather",
    "multinomial": "multinomial_helper",
    "rand": "rand",
    "dropout": "dropout",
    "sort": "sort",
    "topk": "topk",
    "argmax": "argmax",
    "cumsum": "cumsum",
    "embedding": "embedding",
    "index_add": "index_add",
    "scatter_add": "scatter_add",
    "cat": "cat",
    "split": "split",
    "matmul": "matmul",
    "bn": "batch_norm",
    "ln": "layer_norm",
    "conv": "convolution",
    "sdpa": "scaled_dot_product_attention",
    "inv_ex": "inv_ex",
    "det": "det",
    "norm": "norm",
    "median": "median",
    "kthvalue": "kthvalue",
    "quantile": "quantile",
    "searchsorted": "searchsorted",
    "bucketize": "bucketize",
    "isin": "isin",
    "flip": "flip",
    "roll": "roll",
    "cdist": "cdist",
    "fft": "fft",
    "stft": "stft",
    "pow": "pow",
    "lerp": "lerp",
    "addcmul": "addcmul",
    "rrelu": "rrelu",
    "gumbel": "gumbel_softmax",
    "vander": "vander",
}


@pytest.mark.parametrize(("question", "name"), sorted(UNCONDITIONAL.items()))
def test_agrees_with_a_gpu(question: str, name: str) -> None:
    """Where an H200 refused an op under capture the facts give a reason, and where it did not they give none."""
    rule = semantics.signature(OPS[name])
    reasons = [r for r in (rule.sync, rule.transfer, rule.dynamic, rule.uncertain) if r]
    assert bool(reasons) == (GOLDEN[question] != ["ok"])
