"""CUDA graphs without a GPU: patches `torch.cuda` so that what ships is what is tested."""

from cgverify.emulation.device import CaptureError, EmulatedCUDA, HostCopyError, UseAfterFree

__all__ = ["CaptureError", "EmulatedCUDA", "HostCopyError", "UseAfterFree"]
