"""CUDA graphs for Lightning Thunder: a proved trace transform, its verifier, a fuzzer, and CUDA graphs without a GPU.

Import this package before ``thunder``; ``torch`` may come before or after. Importing it makes the supported pairs of
PyTorch and Thunder importable together (:mod:`cgverify.thunder_compat`) and loads neither of them: the public names
below are read from their modules when they are first used, so that the pytest plugin costs nothing where it is idle.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cgverify import thunder_compat

if TYPE_CHECKING:
    from cgverify import emulation, fuzzing
    from cgverify.api import CUDAGraphTransform, cuda_graph_transform
    from cgverify.diagnostics import Diagnostic, Report, UngraphedWarning, VerificationError
    from cgverify.fuzzing.program import ProgramError
    from cgverify.guarding import Verified, assert_verified
    from cgverify.passes import PassReport, verify_each
    from cgverify.plugin import ReduceOverhead
    from cgverify.runtime.optout import ungraphed
    from cgverify.thunder_compat import UnsupportedVersionError
    from cgverify.verifier import contracts, verify, verify_pair

__version__ = "0.1.0"

__all__ = [
    "CUDAGraphTransform",
    "Diagnostic",
    "PassReport",
    "ProgramError",
    "ReduceOverhead",
    "Report",
    "UngraphedWarning",
    "UnsupportedVersionError",
    "VerificationError",
    "Verified",
    "__version__",
    "assert_verified",
    "contracts",
    "cuda_graph_transform",
    "emulation",
    "fuzzing",
    "ungraphed",
    "verify",
    "verify_each",
    "verify_pair",
]

# Public name -> the module that defines it, and its name there; None where the name is itself a module.
_HOMES: dict[str, tuple[str, str | None]] = {
    "CUDAGraphTransform": ("cgverify.api", "CUDAGraphTransform"),
    "Diagnostic": ("cgverify.diagnostics", "Diagnostic"),
    "PassReport": ("cgverify.passes", "PassReport"),
    "ProgramError": ("cgverify.fuzzing.program", "ProgramError"),
    "ReduceOverhead": ("cgverify.plugin", "ReduceOverhead"),
    "Report": ("cgverify.diagnostics", "Report"),
    "UngraphedWarning": ("cgverify.diagnostics", "UngraphedWarning"),
    "UnsupportedVersionError": ("cgverify.thunder_compat", "UnsupportedVersionError"),
    "VerificationError": ("cgverify.diagnostics", "VerificationError"),
    "Verified": ("cgverify.guarding", "Verified"),
    "assert_verified": ("cgverify.guarding", "assert_verified"),
    "contracts": ("cgverify.verifier.contracts", None),
    "cuda_graph_transform": ("cgverify.api", "cuda_graph_transform"),
    "emulation": ("cgverify.emulation", None),
    "fuzzing": ("cgverify.fuzzing", None),
    "ungraphed": ("cgverify.runtime.optout", "ungraphed"),
    "verify": ("cgverify.verifier", "verify"),
    "verify_each": ("cgverify.passes", "verify_each"),
    "verify_pair": ("cgverify.verifier", "verify_pair"),
}


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cgverify' has no attribute {name!r}; its public names are {', '.join(__all__)}")
    module_name, attribute = _HOMES[name]
    module = import_module(module_name)
    value: object = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(set(globals()) | set(__all__))


thunder_compat.install()
