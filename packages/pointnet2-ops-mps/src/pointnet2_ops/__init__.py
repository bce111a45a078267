"""PointNet++ operators under the import name of pointnet2_ops, for `mps` and CPU tensors.

A stand-in, not affiliated with the original: its names, layouts, ties and arithmetic on CUDA, with
the kernels of mps-pointops.
"""

from mps_pointops._owners import check_owner
from pointnet2_ops._version import __mps_version__, __version__

# before the modules: where files of two distributions are mixed, this says why they fail
check_owner("pointnet2_ops", "pointnet2-ops-mps", ["pointnet2-ops"], __file__)

from pointnet2_ops import _ext, options, pointnet2_modules, pointnet2_utils  # noqa: E402

__all__ = [
    "__mps_version__",
    "__version__",
    "_ext",
    "options",
    "pointnet2_modules",
    "pointnet2_utils",
]
