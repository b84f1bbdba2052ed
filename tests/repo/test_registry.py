"""The table of rules: each is documented, coded, named, tested both ways, and triggered by a mutator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from cgverify.fuzzing.mutators import MUTATORS
from cgverify.verifier import registry, rules
from tests import test_cases
from tests.cases.build import CASES

import pytest

RULES = registry.rules()
# A rule names the fault, never the remedy: it must read well after "allow ...".
BANNED = re.compile(r"^(no|avoid|disallow|prefer|require|missing-check|use|should|must|never|check)-(?!after)")
FAMILIES = {"1": "structure", "2": "capture", "3": "memory", "4": "ordering", "5": "equivalence"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_documented(rule: registry.Rule) -> None:
    """The docstring has the five headings, in order, each with text below it, and `explain` prints it."""
    lines = rule.manual.splitlines()
    places = [lines.index(heading) for heading in registry.HEADINGS]
    assert places == sorted(places)
    assert all(lines[place + 1].startswith("    ") for place in places)
    assert rule.manual in registry.explain(rule.code)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_code_and_name(rule: registry.Rule) -> None:
    """The code belongs to the family that defines the rule; the name is in kebab case and names a fault."""
    assert re.fullmatch(r"CG[1-5]\d\d", rule.code)
    assert rule.check.__module__.removeprefix(f"{rules.__name__}.").split(".")[0] == rule.family
    assert FAMILIES[rule.code[2]] == rule.family
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert not BANNED.match(rule.name)
    assert rule.check.__name__ == rule.name.replace("-", "_")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_tested(rule: registry.Rule) -> None:
    """The rule has a case module with a good and a bad case, a snapshot, and a mutator."""
    module = f"{rule.code.lower()}_{rule.check.__name__}"
    own = [case for case in CASES if case.make.__module__.endswith(module)]
    assert [case for case in own if not case.expected]
    assert [case for case in own if any(place.startswith(rule.code) for place in case.expected)]
    assert (test_cases.SNAPSHOTS / f"{rule.code}.txt").exists()
    assert [mutator for mutator in MUTATORS if mutator.code == rule.code]


UNSEEN = {
    "has changed its place among ops of unknown effect",  # such ops write too, by assumption, and that is told first
}


def sentences() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Each text of three words and more that the rules can say, as it is written, and as a pattern."""
    for file in sorted(Path(str(rules.__file__)).parent.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        manuals = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if not isinstance(node, (ast.JoinedStr, ast.Constant)) or id(node) in parts | manuals:
                continue
            pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [str(piece.value) if isinstance(piece, ast.Constant) else "" for piece in pieces]
            if "".join(texts).count(" ") >= 2 and not any(unseen in text for text in texts for unseen in UNSEEN):
                yield ast.unparse(node), re.compile(".+?".join(map(re.escape, filter(None, texts))))


def test_each_message_is_in_a_snapshot() -> None:
    """Whatever a rule can say, a snapshot shows; lines are joined, since messages are wrapped."""
    shown = "".join(path.read_text(encoding="utf-8") for path in test_cases.SNAPSHOTS.glob("*.txt"))
    joined = re.sub(r"\n +", " ", shown)
    assert [text for text, pattern in sentences() if not pattern.search(joined)] == []


def test_codes_unique() -> None:
    """No code and no name is used twice."""
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


def test_taken_code_refused() -> None:
    """Registering a second rule under a code raises, with the name of the first."""
    with pytest.raises(ValueError, match="taken by undefined-proxy"):
        registry.rule("CG101", "another")(lambda subject: ())


def test_unknown_code_explained() -> None:
    """`explain` of an unknown code names the codes that are like it, or else all there are."""
    with pytest.raises(KeyError, match=r"no rule 'CG405X': did you mean CG405 or CG40\d or CG40\d\?"):
        registry.explain("CG405x")
    with pytest.raises(KeyError, match=r"the codes are CG101, CG102, .*, CG504"):
        registry.explain("E501")


def test_mutators_know_their_rules() -> None:
    """Every mutator names a rule that exists, and no two mutators share a name."""
    codes = {rule.code for rule in RULES}
    assert {mutator.code for mutator in MUTATORS} <= codes
    assert len({mutator.name for mutator in MUTATORS}) == len(MUTATORS)
