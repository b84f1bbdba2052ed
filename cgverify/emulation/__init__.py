from cgverify.emulation.device import EmulatedCUDA
from cgverify.emulation.errors import CaptureError, HostCopyError, UseAfterFree

__all__ = ["CaptureError", "EmulatedCUDA", "HostCopyError", "UseAfterFree"]
