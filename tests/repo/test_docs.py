"""Prose names only things that exist, and the commands it gives are those that CI runs."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import cgverify
from cgverify import cli
from cgverify.verifier import registry

import pytest

ROOT = Path(cgverify.__file__).parents[1]

# Hosts that a link may lead to; everything else has to be added here on purpose.
HOSTS = {
    "arxiv.org",
    "developer.nvidia.com",
    "docs.github.com",
    "docs.nvidia.com",
    "docs.pytorch.org",
    "download.pytorch.org",
    "github.com",
    "hypothesis.readthedocs.io",
    "keepachangelog.com",
    "pytorch.org",
    "semver.org",
    "www.apache.org",
}


def pages() -> list[Path]:
    """Every Markdown page of the repository."""
    return sorted(path for path in ROOT.rglob("*.md") if not ignored(path))


def sources() -> list[Path]:
    """Every text file that people read or run."""
    kinds = ("*.py", "*.md", "*.toml", "*.yml", "run")
    return sorted(path for kind in kinds for path in ROOT.rglob(kind) if not ignored(path))


def ignored(path: Path) -> bool:
    """Whether a path is a tool's or an environment's and not the project's."""
    parts = path.relative_to(ROOT).parts
    hidden = [part for part in parts if part.startswith(".") and part not in {".ci", ".github"}]
    return bool(hidden) or "site" in parts or "node_modules" in parts


def code_spans(text: str) -> list[str]:
    """The inline code of a page, and each line of its code blocks."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    return inline + [line for block in blocks for line in block.splitlines()]


def resolves(dotted: str) -> bool:
    """Whether ``cgverify.a.b`` is a module or something inside one."""
    names = dotted.split(".")
    value: object = importlib.import_module(names[0])
    for index, name in enumerate(names[1:], start=2):
        try:
            value = importlib.import_module(".".join(names[:index]))
        except ImportError:
            if not hasattr(value, name) and name not in getattr(value, "__annotations__", {}):
                return False
            value = getattr(value, name, None)
    return True


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_prose_exist(page: Path) -> None:
    """Each dotted name under cgverify that a page shows as code can be imported."""
    names = {match for span in code_spans(page.read_text()) for match in re.findall(r"\bcgverify(?:\.\w+)+", span)}
    assert [name for name in sorted(names) if not name.endswith((".py", ".md")) and not resolves(name)] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_prose_exist(page: Path) -> None:
    """Each path that a page shows as code, and each link to a file, leads to something.

    A path counts if it starts in a folder of the repository's root, or of the page's own, but for what runs write.
    KEY stands for any name.
    """
    text = page.read_text()
    missing = []
    for span in code_spans(text):
        for path in re.findall(r"(?<![\w./-])[\w.-]+(?:/[\w.*-]*)+", span):
            first = path.split("/")[0]
            bases = [base for base in (ROOT, page.parent) if (base / first).is_dir()]
            wanted = path.rstrip("/").replace("KEY", "*")
            if first != ".cgverify" and bases and not any(list(base.glob(wanted)) for base in bases):
                missing.append(path)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        generated = page.parent.name == "docs" and target.split("#")[0] in {"rules.md", "messages.md", "inside.md"}
        if "://" not in target and not generated and not (page.parent / target).exists():
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_codes_in_prose_exist(page: Path) -> None:
    """Each rule code that a page names is a rule's."""
    known = {rule.code for rule in registry.rules()}
    assert set(re.findall(r"\bCG\d{3}\b", page.read_text())) - known == set()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_prose_exist(page: Path) -> None:
    """Each ``cgverify COMMAND`` and each ``--cgverify-option`` that a page shows as code exists."""
    commands = {
        command.name or command.callback.__name__ for command in cli.app.registered_commands if command.callback
    } | {group.name for group in cli.app.registered_groups}
    options = (ROOT / "cgverify/fuzzing/pytest_plugin.py").read_text()
    for span in code_spans(page.read_text()):
        used = re.match(r"(?:\$ )?(?:python -m )?cgverify ([a-z]\w*)", span)
        assert used is None or used[1] in commands, span
        for option in re.findall(r"--cgverify-[a-z]+", span):
            assert f'"{option}"' in options, span


def test_links_lead_to_known_hosts() -> None:
    """No file links to a host that nobody chose."""
    found = {
        (host, str(path.relative_to(ROOT)))
        for path in sources()
        for host in re.findall(r"https?://([\w.-]+\w)", path.read_text())
    }
    assert {(host, path) for host, path in found if host not in HOSTS} == set()


def test_no_path_of_one_machine() -> None:
    """No file holds an absolute path into somebody's machine."""
    pattern = re.compile(r"""(?<![\w./:~$}-])/(?:home|root|Users|mnt|opt|work|tmp)/\w""")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_ci_runs_the_commands_of_the_readme() -> None:
    """README.md and CI run the same two commands: the main job and the tests."""
    readme, script = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in ("pytest -n auto fuzz/", "pytest -n auto tests/"):
        assert f"\n{command}\n" in readme
        assert re.search(rf"^ *{command}", script, flags=re.MULTILINE)


def test_example_of_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    """The first example of README.md prints the block below it."""
    blocks = re.findall(r"^```(?:\w*)\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(blocks[0])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", str(script)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.stdout.replace(f"{tmp_path}{os.sep}", "") == blocks[1], result.stderr


def test_finding_of_the_readme_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second example of README.md, judged, gives the finding below it, which the verifier's page shows too."""
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/verifier.md"))
    (source,) = re.findall(r"^```python\n(import torch\n\n\ndef count.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    (finding,) = re.findall(r"^```\n(error\[CG401\].*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "counter.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "counter.py:count", "--target", "thunder", "--device", "emulated"]) == 1
    assert finding in capsys.readouterr().out
    assert finding in page
    assert cli.main(["check", "counter.py:count", "--device", "emulated"]) == 0
