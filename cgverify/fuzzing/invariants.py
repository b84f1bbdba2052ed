"""What must hold of every program, one exception class each, so that Hypothesis and reports tell failures apart."""

from __future__ import annotations


class Broken(AssertionError):
    """An invariant is broken. `name` is the invariant's short name, used in keys and reports."""

    name = "broken"


class WrongResult(Broken):
    """A result differs, bit for bit, from the un-graphed function's."""

    name = "wrong-result"


class WrongMetadata(Broken):
    """A result has another kind, dtype, shape, stride, device or requires_grad."""

    name = "wrong-metadata"


class HeldResultChanged(Broken):
    """A result that the caller still holds changed after it was returned."""

    name = "held-result-changed"


class LostWrite(Broken):
    """An input does not hold what the un-graphed function leaves in it."""

    name = "lost-write"


class WrongAliasing(Broken):
    """Inputs and results share memory otherwise than with the un-graphed function."""

    name = "wrong-aliasing"


class WrongGradient(Broken):
    """A gradient differs, bit for bit."""

    name = "wrong-gradient"


class WrongGenerator(Broken):
    """A random generator stands at another position."""

    name = "wrong-generator"


class UnexpectedError(Broken):
    """A call raises where the un-graphed function does not."""

    name = "unexpected-error"


class MissingError(Broken):
    """A call returns where the un-graphed function raises."""

    name = "missing-error"


class WrongError(Broken):
    """A call raises something else than the un-graphed function does."""

    name = "wrong-error"


class TransformFailed(Broken):
    """The transform itself raises."""

    name = "transform-failed"


class FalseAlarm(Broken):
    """The verifier rejects the transform's rewrite of a correct program."""

    name = "false-alarm"


class BrokenStructure(Broken):
    """The emitted trace is not a valid program, or has other inputs and outputs than the original."""

    name = "broken-structure"


class CaptureGivenUp(Broken):
    """The transform warns that it gave up a capture that it had chosen itself, and runs un-graphed."""

    name = "capture-given-up"


class ProcessDamaged(Broken):
    """After the calls, the process cannot use the device or its generator as before."""

    name = "process-damaged"


class Crash(Broken):
    """The program ends the process that runs it, twice in fresh processes, and not without the transform."""

    name = "crash"


class Hang(Broken):
    """The program does not come to an end within the time limit, and does without the transform."""

    name = "hang"


class OutOfMemory(Broken):
    """The device's memory runs out where it does not without the transform, in a fresh process too."""

    name = "out-of-memory"


class BaseFault(Broken):
    """Thunder without graphs differs from eager PyTorch: not the transform's doing."""

    name = "base-fault"


INVARIANTS: dict[str, type[Broken]] = {kind.name: kind for kind in Broken.__subclasses__()}
"""Every invariant, by name."""
