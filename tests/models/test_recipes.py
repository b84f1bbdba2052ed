"""Real models, as people write them, under the transform: the recipes, the plugin, and Thunder's entry points."""

from __future__ import annotations

from typing import Any

import cgverify
from cgverify.recipes import generate, train
from cgverify.recipes.convnet import ConvNet
from cgverify.recipes.peers import (
    CGVERIFY,
    EAGER,
    RIGHT,
    THUNDER,
    THUNDER_GRAPHS,
    Compiled,
    choose_peers,
    compile_module,
    is_right,
)

import pytest
import thunder
import torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def verdicts(rows: list[Any]) -> dict[str, str]:
    """What each peer's row says."""
    return {row.peer: row.verdict for row in rows}


def test_generation_with_a_static_cache(cuda: Any) -> None:
    """A GPT that writes keys and values in place gives eager's tokens, from two graphs: prompt and step."""
    rows = generate.run_peers(generate.SMALL, [EAGER, CGVERIFY])
    assert verdicts(rows) == {EAGER: RIGHT, CGVERIFY: RIGHT}
    assert rows[1].graphs == 2


@pytest.mark.parametrize("model", ["gpt", "convnet"])
def test_training_is_bit_for_bit_that_of_thunder(cuda: Any, model: str) -> None:
    """Losses, weights and running statistics after four steps of AdamW are those of Thunder without graphs."""
    rows = train.run_peers(train.SMALL[model], [THUNDER, CGVERIFY], steps=4)
    assert verdicts(rows) == {THUNDER: RIGHT, CGVERIFY: RIGHT}
    assert rows[1].graphs == 2


def test_training_leaves_no_work_out(cuda: Any) -> None:
    """One region holds the forward, one the backward, the fused loss in both; what stays outside empties lists."""
    task = train.SMALL["gpt"]
    module = task.make().to("cuda")
    transform = cgverify.CUDAGraphTransform()
    task.loss(thunder.jit(module, transforms=[transform]), task.draw()).backward()
    plans = transform.report().plans
    assert [len(plan.regions) for plan in plans] == [1, 1]
    assert {left.symbol for plan in plans for left in plan.left_out} == {"clear_mutable_collection"}


def test_a_recipe_sees_what_is_wrong(cuda: Any) -> None:
    """Running statistics that warm-ups moved too far are reported: the recipes are not blind."""
    rows = train.run_peers(train.SMALL["convnet"], [THUNDER, THUNDER_GRAPHS], steps=2)
    assert verdicts(rows)[THUNDER_GRAPHS].startswith("wrong: ")
    assert "running" in verdicts(rows)[THUNDER_GRAPHS]


def test_what_was_not_compared_is_not_right(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Thunder fails there is no yardstick, so no peer is right, and the recipe does not end well."""

    def compile_some(peer: str, module: torch.nn.Module, entry: str) -> Compiled:
        if peer == THUNDER:
            raise RuntimeError("no")
        return Compiled(module)

    monkeypatch.setattr(train, "compile_module", compile_some)
    rows = train.run_peers(train.SMALL["convnet"], [THUNDER, CGVERIFY], steps=1)
    assert verdicts(rows) == {THUNDER: "failed: RuntimeError: no", CGVERIFY: "not compared"}
    assert not is_right(rows)


def test_training_is_always_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thunder, the yardstick, is run even if it is not among the peers that are asked for."""
    asked: list[str] = []
    monkeypatch.setattr(train, "run_peers", lambda task, peers, *more: asked.extend(peers) or [])
    assert train.main(["--peers", "cgverify", "--device", "emulated", "--json"]) == 0
    assert asked == [EAGER, THUNDER, CGVERIFY]


def test_plugin_of_thunder_compile(cuda: Any) -> None:
    """`thunder.compile` with the plugin replays a graph, and gives what it gives without."""
    torch.manual_seed(0)
    module = ConvNet(4, 1).to("cuda").eval().requires_grad_(False)
    x = torch.randn(2, 3, 8, 8, device="cuda")
    plugin = cgverify.ReduceOverhead(max_graphs=3)
    recipe = thunder.recipes.BaseRecipe(fuser="torch.compile")
    compiled = thunder.compile(module, recipe=recipe, plugins=plugin)
    plain = compile_module(THUNDER, module, "compile").call
    for _ in range(3):
        assert torch.equal(compiled(x), plain(x))
    assert plugin.transforms[0].stats().replays == 2


def test_plugin_gives_each_model_a_transform() -> None:
    """Two models compiled with one plugin share neither bounds nor reports, and settings are checked at once."""
    plugin = cgverify.ReduceOverhead(max_graphs=3)
    assert plugin.setup_transforms() != plugin.setup_transforms()
    assert len(plugin.transforms) == 2
    with pytest.raises(ValueError, match="max_graphs=0"):
        cgverify.ReduceOverhead(max_graphs=0)
    with pytest.raises(TypeError, match="max_graph"):
        cgverify.ReduceOverhead(max_graph=3)


def test_module_in_train_and_eval_mode(cuda: Any) -> None:
    """A jitted net with batch normalisation gives Thunder's results in both modes, switched back and forth."""
    torch.manual_seed(0)
    ours, plain = (ConvNet(4, 1).to("cuda").requires_grad_(False) for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    graphed, ungraphed = compile_module(CGVERIFY, ours), compile_module(THUNDER, plain)
    for mode in (True, True, True, False, False, False, True, False):
        for compiled in (graphed, ungraphed):
            compiled.call.train(mode)  # type: ignore[attr-defined]
        x = torch.randn(2, 3, 8, 8, device="cuda")
        assert torch.equal(graphed.call(x), ungraphed.call(x))
        assert all(map(torch.equal, ours.state_dict().values(), plain.state_dict().values()))
    assert graphed.graphs() == 2


@pytest.mark.parametrize("recipe", [generate.main, train.main])
def test_errors_of_one_line(recipe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown peer is one line on standard error and exit code 2."""
    assert recipe(["--peers", "nobody", "--device", "emulated"]) == 2
    assert capsys.readouterr().err.startswith("error: no peer is called 'nobody': choose among eager")
    assert choose_peers("cgverify") == [EAGER, CGVERIFY]
