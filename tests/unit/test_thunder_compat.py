"""Import order, refusals and loans of the Thunder compatibility hook, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cgverify
from cgverify.thunder_compat import NAMED_TENSOR_METHODS

import pytest
import torch

ROOT = Path(cgverify.__file__).parents[1]

WORKS = """
import thunder
assert thunder.jit(lambda x: x + 1)(torch.ones(2)).tolist() == [2.0, 2.0]
"""

# What PyTorch 2.14 has in place of the classmethod written in Python.
BUILTIN_APPLY = 'torch.autograd.Function.apply = torch._C._FunctionBase.__dict__["apply"]'

CUSTOM_FUNCTION = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 5 * x * x  # not the true derivative, so that it shows who computed it

x = torch.tensor([2.0, 3.0], requires_grad=True)
result = thunder.jit(lambda x: Cube.apply(x))(x)
result.sum().backward()
assert result.tolist() == [8.0, 27.0], result
assert x.grad.tolist() == [20.0, 45.0], x.grad
"""


def run(code: str, *, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter that finds cgverify and, before everything else, ``packages``."""
    path = [str(packages)] if packages else []
    path += [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def add_package(folder: Path, package: str, version: str, source: str = "", *, distribution: str | None = None) -> None:
    """Put a stand-in package, with metadata, into ``folder``."""
    name = distribution or package
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(source)
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with a stand-in for a supported torch; the test adds a stand-in for Thunder."""
    add_torch(tmp_path, "2.13.0")
    return tmp_path


def add_torch(folder: Path, version: str) -> None:
    """Put a stand-in for torch into ``folder``: as much of it as the hook touches."""
    add_package(folder, "torch", version, f"__version__ = {version!r}\nclass Tensor: pass\n")
    source = "class Function:\n    @classmethod\n    def apply(cls): ...\n"
    (folder / "torch" / "autograd.py").write_text(source)


def add_thunder(folder: Path, source: str = "", version: str = "0.2.6") -> None:
    """Put a stand-in for Thunder, with one submodule, into ``folder``."""
    add_package(folder, "thunder", version, source, distribution="lightning-thunder")
    (folder / "thunder" / "core.py").write_text("")


def test_import_is_lazy() -> None:
    """Importing cgverify and listing its names loads neither torch nor thunder."""
    result = run("import sys, cgverify; dir(cgverify); print({'torch', 'thunder', 'numpy'} & set(sys.modules))")
    assert result.stdout == "set()\n", result.stderr


@pytest.mark.parametrize(
    "imports",
    ["import cgverify, torch", "import torch, cgverify", f"import torch, cgverify; {BUILTIN_APPLY}"],
    ids=["cgverify-torch-thunder", "torch-cgverify-thunder", "builtin-apply"],
)
def test_thunder_works_and_torch_is_left_alone(imports: str) -> None:
    """After the import Thunder compiles, traces ``autograd.Function``, and torch has the attributes it came with."""
    before = "before = [n for n in dir(torch.Tensor)], torch.autograd.Function.__dict__['apply']\n"
    after = "assert before == ([n for n in dir(torch.Tensor)], torch.autograd.Function.__dict__['apply'])\n"
    result = run(f"{imports}\n{before}{WORKS}{after}{CUSTOM_FUNCTION}")
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(hasattr(torch.Tensor, "rename"), reason="this torch has the named-tensor methods")
def test_removed_method_is_named_when_traced() -> None:
    """A traced call of a method that this torch lacks says so, as eager execution does."""
    import thunder

    with pytest.raises(Exception, match=r"torch\.Tensor\.rename does not exist in torch 2\."):
        thunder.jit(lambda x: x.rename("a"))(torch.ones(2))
    assert not any(hasattr(torch.Tensor, name) for name in NAMED_TENSOR_METHODS)


@pytest.mark.parametrize(
    ("torch_version", "thunder_version"),
    [
        ("2.10.1", "0.2.6"),
        ("2.15.0a0+git1", "0.2.6"),
        ("3.0.0", "0.2.6"),
        ("2.13.0", "0.2.5"),
        ("2.13.0", "0.2.7.dev1"),
    ],
)
def test_unsupported_pair_is_one_line(tmp_path: Path, torch_version: str, thunder_version: str) -> None:
    """A pair outside the range is an ImportError that names versions, range and remedy, before Thunder runs."""
    add_torch(tmp_path, torch_version)
    add_thunder(tmp_path, "raise SystemExit('Thunder ran')", thunder_version)
    code = "import cgverify\ntry: import thunder\nexcept ImportError as error: print(type(error).__name__, error)"
    result = run(code, packages=tmp_path)
    assert result.stdout == (
        f"UnsupportedVersionError torch {torch_version} with lightning-thunder {thunder_version} is not supported: "
        "cgverify needs torch >=2.11,<2.15 with lightning-thunder 0.2.6; "
        "run `pip install torch==2.13.0 lightning-thunder==0.2.6`\n"
    ), result.stderr


def test_unsupported_pair_already_imported(tmp_path: Path) -> None:
    """Importing cgverify after an unsupported Thunder is refused with the same line."""
    add_torch(tmp_path, "2.10.0")
    add_thunder(tmp_path)
    result = run("import thunder, cgverify", packages=tmp_path)
    assert result.stderr.splitlines()[-1].startswith(
        "cgverify.thunder_compat.UnsupportedVersionError: torch 2.10.0 with lightning-thunder 0.2.6 is not supported"
    )


def test_supported_pair_already_imported(packages: Path) -> None:
    """Importing cgverify after a Thunder that works changes nothing."""
    add_thunder(packages)
    result = run(
        "import sys, thunder\nbefore = [*sys.meta_path]\nimport cgverify\nprint(sys.meta_path == before)",
        packages=packages,
    )
    assert result.stdout == "True\n", result.stderr


def test_earlier_failed_import_is_refused(packages: Path) -> None:
    """A process in which Thunder failed to import before cgverify came is told to start afresh."""
    add_thunder(packages, "import thunder.core\nraise AttributeError('align_as')")
    code = "try: import thunder\nexcept AttributeError: pass\nimport cgverify\nimport thunder"
    result = run(code, packages=packages)
    assert result.stderr.splitlines()[-1] == (
        "cgverify.thunder_compat.UnsupportedVersionError: thunder failed to import earlier in this process "
        "(torch 2.13.0 with lightning-thunder 0.2.6) and left modules that cannot be used; "
        "start a fresh process and import cgverify before thunder"
    )


def test_failure_inside_thunder_is_one_line(packages: Path) -> None:
    """An import that fails inside Thunder shows the cause in one line and no frame of Thunder's."""
    add_thunder(packages, "import thunder.core\nraise AttributeError('align_as')")
    result = run("import cgverify, thunder", packages=packages)
    assert result.stderr.splitlines()[-1] == (
        "cgverify.thunder_compat.UnsupportedVersionError: thunder failed to import "
        "(torch 2.13.0 with lightning-thunder 0.2.6): AttributeError: align_as; cgverify needs torch >=2.11,<2.15 with "
        "lightning-thunder 0.2.6; run `pip install torch==2.13.0 lightning-thunder==0.2.6` in a fresh environment"
    )
    assert "thunder/__init__.py" not in result.stderr


def test_looking_for_thunder_imports_nothing(packages: Path) -> None:
    """Asking where Thunder is neither runs it nor hides its own loader once it is imported."""
    add_thunder(packages, "print('ran', type(__loader__).__name__, type(__spec__.loader).__name__)")
    code = "import cgverify, importlib.util\nprint(importlib.util.find_spec('thunder').name)\nimport thunder"
    result = run(code, packages=packages)
    assert result.stdout == "thunder\nran SourceFileLoader SourceFileLoader\n", result.stderr


def test_unknown_public_name() -> None:
    """A name that cgverify does not have is an AttributeError that lists those it has."""
    with pytest.raises(AttributeError, match="no attribute 'verfy'; its public names are CUDAGraphTransform, "):
        cgverify.verfy  # noqa: B018
