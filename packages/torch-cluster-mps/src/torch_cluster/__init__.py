"""The operators of torch_cluster under its import name, for `mps` and CPU tensors.

A stand-in, not affiliated with the original: its names, arguments, order and arithmetic on CUDA,
with the kernels of mps-pointops. As in the original, `fps`, `knn`, `radius` and `nearest` are the
functions here; the modules of these names hold them.
"""

from mps_pointops._owners import check_owner

__version__ = "1.6.3"  # the API level
__mps_version__ = "0.1.0"

# before the modules: where files of two distributions are mixed, this says why they fail
check_owner("torch_cluster", "torch-cluster-mps", ["torch-cluster"], __file__)

from torch_cluster import _ops, typing  # noqa: E402, F401
from torch_cluster.fps import fps  # noqa: E402
from torch_cluster.graclus import graclus_cluster  # noqa: E402
from torch_cluster.grid import grid_cluster  # noqa: E402
from torch_cluster.knn import knn, knn_graph  # noqa: E402
from torch_cluster.nearest import nearest  # noqa: E402
from torch_cluster.radius import radius, radius_graph  # noqa: E402
from torch_cluster.rw import random_walk  # noqa: E402
from torch_cluster.sampler import neighbor_sampler  # noqa: E402

cuda_version: int = _ops.cuda_version()

__all__ = [
    "__version__",
    "fps",
    "graclus_cluster",
    "grid_cluster",
    "knn",
    "knn_graph",
    "nearest",
    "neighbor_sampler",
    "radius",
    "radius_graph",
    "random_walk",
]
