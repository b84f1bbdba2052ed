"""The transforms that can be put under test: cgverify's own, Thunder's own, none, or one of yours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

CHOICES = "cgverify, thunder, none, or module:attr for a Transform (an instance, a class or a factory)"

IN_PLACE_AFTER = 1
"""After how many repeated calls at the same addresses our transform reads inputs in place: histories have few calls."""


class TargetError(ValueError):
    """A target that does not exist or is no transform; one line says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A transform under test.

    Attributes:
        name: as given on the command line.
        imports: the Python line that imports what `expression` needs.
        expression: the Python expression that makes the transform, for a reproducer; empty for no transform.
        make: makes the transform, one for each program where it can; None for no transform.
    """

    name: str
    imports: str
    expression: str
    make: Callable[[], Any] | None


def find_target(name: str) -> Target:
    """Return the target called `name`.

    Raises:
        TargetError: there is no such target, or what it names is not a Thunder transform.
    """
    match name:
        case "cgverify":
            return _known(name, "cgverify", "CUDAGraphTransform", in_place_after=IN_PLACE_AFTER)
        case "thunder":
            return _known(name, "thunder.transforms.cudagraph", "CUDAGraphTransform")
        case "none":
            return Target("none", "", "", None)
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        raise TargetError(f"unknown target {name!r}; choose {CHOICES}")
    try:
        found = getattr(import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        raise TargetError(f"target {name!r}: {error}; give a module that can be imported from here") from None
    except AttributeError:
        raise TargetError(
            f"target {name!r}: module {module_name!r} has no {attribute!r}; name the transform in it"
        ) from None
    imports = f"from {module_name} import {attribute}"
    if not callable(found):
        return Target(name, imports, attribute, lambda: _checked(found, name))
    return Target(name, imports, f"{attribute}()", lambda: _checked(found(), name))


def _known(name: str, module: str, attribute: str, **settings: Any) -> Target:
    def make() -> Any:
        return getattr(import_module(module), attribute)(**settings)

    given = ", ".join(f"{setting}={value!r}" for setting, value in settings.items())
    return Target(name, f"from {module} import {attribute}", f"{attribute}({given})", make)


def _checked(transform: Any, name: str) -> Any:
    if not callable(getattr(transform, "transform_trace_post_optimization", None)):
        raise TargetError(
            f"target {name!r} is a {type(transform).__name__}, which has no transform_trace_post_optimization; "
            f"choose {CHOICES}"
        )
    return transform
