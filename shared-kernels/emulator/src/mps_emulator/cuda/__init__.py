"""The MPS code path on an NVIDIA card: Metal texts as CUDA kernels, operators under ``CUDA`` too.

An instrument for measurements. Tensors are ordinary CUDA tensors. ``torch.mps.compile_shader``
translates and compiles Metal text for the card, and what a package registers for the dispatch key
``MPS`` is registered for ``CUDA`` as well, so that the package's own MPS functions run.
"""

from __future__ import annotations

from ._counts import Counts, count
from ._library import calls, count_calls_of
from ._routing import install, is_installed

__all__ = ["Counts", "calls", "count", "count_calls_of", "install", "is_installed"]
