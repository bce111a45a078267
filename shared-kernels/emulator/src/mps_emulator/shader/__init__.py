"""Runs Metal compute kernels on the host: what ``torch.mps.compile_shader`` calls on a Mac."""

from . import options
from ._library import Kernel, Library, compile_shader

__all__ = ["Kernel", "Library", "compile_shader", "options"]
