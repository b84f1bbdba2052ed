"""The wheel holds all that the package reads when it runs, and nothing of the repository around it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import cgverify

import pytest

ROOT = Path(cgverify.__file__).parents[1]


def test_wheel_holds_the_package(tmp_path: Path) -> None:
    """Each module, template, style and script of the package is in the wheel, and no other folder is."""
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="needs hatchling: pip install -e '.[dev]'")
    (built,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    kinds = {".py", ".md", ".typed", ".j2", ".css", ".js", ".json"}
    files = [path for path in (ROOT / "cgverify").rglob("*") if path.is_file() and path.suffix in kinds]
    assert names == {str(path.relative_to(ROOT)) for path in files}
    assert {name for name in names if name.startswith("cgverify/report/templates/")}
