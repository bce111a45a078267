"""Point-cloud operators for PyTorch on Apple silicon.

Dense calls take clouds [B, N, 3] and return indices into N. `mps_pointops.flat` takes points
[N, D] with sorted batch vectors and returns indices into the whole input. Both run the same Metal
kernels on `mps` tensors, and give the same indices on CPU tensors. `SpatialIndex` keeps points
ready for many searches.
"""

from mps_pointops import _flat_graph, flat  # noqa: F401
from mps_pointops.ops.ball_query import ball_query
from mps_pointops.ops.fps import furthest_point_sample
from mps_pointops.ops.gather import gather_points, group_points, scatter_points
from mps_pointops.ops.interpolate import three_interpolate, three_scatter
from mps_pointops.ops.knn import knn
from mps_pointops.ops.three_nn import three_nn
from mps_pointops.spatial.index import SpatialIndex

__version__ = "2.0.0"

__all__ = [
    "SpatialIndex",
    "__version__",
    "ball_query",
    "flat",
    "furthest_point_sample",
    "gather_points",
    "group_points",
    "knn",
    "scatter_points",
    "three_interpolate",
    "three_nn",
    "three_scatter",
]
