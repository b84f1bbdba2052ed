"""The parts import each other only in the directions that ``cgverify/README.md`` allows.

Every import statement of the package is read, wherever it stands, so an import inside a function counts too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cgverify

import pytest

PACKAGE = Path(cgverify.__file__).parent

# What a user of the package may import, and so may the fuzzer.
PUBLIC = frozenset({"cgverify", "api", "diagnostics", "emulation", "thunder_compat", "verifier", "watching"})
EVERYTHING = frozenset(path.stem for path in PACKAGE.iterdir())


@dataclass(frozen=True)
class Allowed:
    """What one part may import.

    Attributes:
        ours: parts of cgverify, besides itself.
        torch: whether PyTorch.
        thunder: whether Thunder; or the modules of the part that may.
        bridges: modules of the part that may import more of ours.
    """

    ours: frozenset[str] = frozenset()
    torch: bool | frozenset[str] = False
    thunder: bool | frozenset[str] = False
    bridges: dict[str, frozenset[str]] = field(default_factory=dict)


FACTS = frozenset({"ir", "plan", "diagnostics"})

# The modules of the verifier that derive facts about ops: the package `semantics`.
SEMANTICS = frozenset({"semantics", "facts", "lowering", "proxies", "scalars", "signatures"})

# The passes of the transform that look into bound symbols or make them.
PASSES = frozenset({"effects", "tables", "emit", "driver", "roles", "scalars", "signature", "sizes", "switches"})

# Modules and packages of the fuzzer that break things from inside, and what they have to reach for it.
BRIDGES = {
    "mutants": frozenset({"transform", "runtime", "plan", "ir"}),
    "mutators": frozenset({"plan", "ir"}),
    "edits": frozenset({"plan", "ir"}),
}

TABLE = {
    "thunder_compat": Allowed(torch=True, thunder=True),
    "ir": Allowed(thunder=True),
    "plan": Allowed(),
    "columns": Allowed(),
    "diagnostics": Allowed(frozenset({"columns", "wording"})),
    "transform": Allowed(FACTS, torch=True, thunder=PASSES),
    "runtime": Allowed(frozenset({"plan", "diagnostics"}), torch=True),
    "emulation": Allowed(torch=True),
    "verifier": Allowed(FACTS, torch=SEMANTICS, thunder=SEMANTICS),
    "fuzzing": Allowed(PUBLIC | {"wording"}, torch=True, thunder=True, bridges=BRIDGES),
    "bench": Allowed(EVERYTHING, torch=True, thunder=True),
    "api": Allowed(EVERYTHING, torch=True, thunder=True),
    "checking": Allowed(EVERYTHING, torch=True, thunder=True),
    "guarding": Allowed(EVERYTHING, thunder=True),
    "passes": Allowed(EVERYTHING, thunder=True),
    "gate": Allowed(frozenset({"fuzzing", "wording"})),
    "plugin": Allowed(frozenset({"api"}), thunder=True),
    "recipes": Allowed(PUBLIC | {"checking", "loading"}, torch=True, thunder=True),
    "survey": Allowed(EVERYTHING, torch=True, thunder=True),
    "reproducing": Allowed(EVERYTHING, torch=True),
    "scoring": Allowed(EVERYTHING, thunder=True),
    "hunting": Allowed(EVERYTHING, torch=True),
    "alarms": Allowed(EVERYTHING, torch=True, thunder=True),
    "watching": Allowed(thunder=True),
    "fidelity": Allowed(EVERYTHING, torch=True),
    "loading": Allowed(EVERYTHING, torch=True, thunder=True),
    "cli": Allowed(frozenset({"commands"})),
    "commands": Allowed(EVERYTHING, torch=True, thunder=True),
    "progress": Allowed(),
    "wording": Allowed(),
    "report": Allowed(EVERYTHING, torch=False, thunder=False),
    "doctor": Allowed(EVERYTHING, torch=True, thunder=True),
    "cgverify": Allowed(EVERYTHING),
    "__main__": Allowed(frozenset({"cli"})),
}


def imported_modules(file: Path) -> Iterator[str]:
    """Yield the dotted names that a module's import statements load, submodules of ours spelled out."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            assert node.module is not None
            yield node.module
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if is_module(name))


def is_module(dotted: str) -> bool:
    """Whether a dotted name under cgverify is a module or a package, and not something inside one."""
    path = PACKAGE.parent.joinpath(*dotted.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def part_of(dotted: str) -> str:
    """``cgverify.transform.emit`` belongs to ``transform``; ``cgverify`` to itself."""
    names = dotted.split(".")
    return names[1] if len(names) > 1 else names[0]


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def forbidden_imports(file: Path) -> list[str]:
    """Return the imports of one module that the table does not allow."""
    dotted = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    part, module = part_of(dotted), dotted.split(".")[-1]
    allowed = TABLE.get(part)
    if allowed is None:
        return [f"{dotted}: the part {part!r} is not in the table; give it a row"]
    found = []
    for name in imported_modules(file):
        top = name.split(".")[0]
        if top == "cgverify":
            target = part_of(name)
            # `from cgverify import x` names the package and then x; the package alone stands for its public names.
            bridges = (allowed.bridges.get(step, frozenset()) for step in dotted.split(".")[2:])
            is_allowed = target in {part, "cgverify"} | allowed.ours.union(*bridges)
        elif top in ("torch", "thunder"):
            grant = allowed.torch if top == "torch" else allowed.thunder
            is_allowed = grant if isinstance(grant, bool) else module in grant
        else:
            is_allowed = True
        if not is_allowed:
            found.append(f"{dotted} imports {name}")
    return found


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_follow_the_table(file: Path) -> None:
    """A module imports only what its part may."""
    assert forbidden_imports(file) == []


def test_table_has_no_dead_rows() -> None:
    """Each row of the table is a part that exists."""
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"} | {
        path.name for path in PACKAGE.iterdir() if path.is_dir()
    }
    assert set(TABLE) - {"cgverify"} <= parts


def test_no_private_imports_across_parts() -> None:
    """No module takes a name with a leading underscore out of another part."""
    private = []
    for file in modules():
        part = part_of(".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cgverify."):
                names = [alias.name for alias in node.names if alias.name.startswith("_")]
                if names and part_of(node.module or "") != part:
                    private.append((str(file), node.module, names))
    assert private == []
