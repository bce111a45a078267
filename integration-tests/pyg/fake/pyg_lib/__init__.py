"""A minimal pyg_lib for these tests: its operators' schemas, CPU kernels of mps-pointops.

pyg-lib is not on the package index. Where it is installed, the tests use it and not this.
"""

from pyg_lib import _kernels, ops, sampler

__version__ = "0.8.0"
__all__ = ["__version__", "ops", "sampler"]
_kernels.define()
