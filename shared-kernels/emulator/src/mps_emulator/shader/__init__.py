"""Runs Metal compute kernels on the host: what ``torch.mps.compile_shader`` calls on a Mac.

The text is preprocessed, its Metal-only parts are rewritten on the same lines, and clang compiles
it as C++ with every load and store reported to a checker. A launch runs each thread as a fibre;
simdgroup functions and barriers are meeting points. What is undefined on a GPU ends the launch
with an error that names the kernel and the line.

Known limits:

* Address spaces are erased. Two overloads that differ in address spaces work when their bodies do
  the same; the static checker checks the spaces themselves.
* Vector comparisons give masks that convert to ``bool2`` to ``bool4``. Written as ``auto``, a mask
  has the components 0 and -1.
* Threads run one at a time: an access that strays into another bound buffer, or a race that no
  schedule exposes, is not seen. Try several seeds.
* Lanes of a simdgroup that took different branches cannot take part in one simdgroup function;
  that is refused, also where Metal defines the result for the active lanes.
* No matrices, textures, quadgroup functions, simdgroup matrices or function constants.
"""

from . import options
from ._library import Kernel, Library, compile_shader

__all__ = ["Kernel", "Library", "compile_shader", "options"]
