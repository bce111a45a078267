"""`python -m pyg_lib_mps_plugin`: what is active and what is missing."""

import torch  # noqa: F401  (loads the plug-in, as any program does)

from pyg_lib_mps_plugin import check

print(check())
