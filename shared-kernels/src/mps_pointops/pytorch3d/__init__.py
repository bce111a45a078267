"""Point operators with the signatures of `pytorch3d.ops`, for `mps` and CPU tensors.

    from mps_pointops.pytorch3d import ball_query, knn_points, sample_farthest_points

in place of `from pytorch3d.ops import ...`. Clouds are padded to one size, [N, P, D]; `lengths` [N]
says how many points of each are real. Contract: `README.md` beside this file.
"""

from mps_pointops.pytorch3d.ball_query import ball_query
from mps_pointops.pytorch3d.gather import knn_gather, masked_gather
from mps_pointops.pytorch3d.knn import KNN, knn_points
from mps_pointops.pytorch3d.sample import sample_farthest_points

# there the second is plain PyTorch, slow, and gives what the first gives
sample_farthest_points_naive = sample_farthest_points

__all__ = [
    "KNN",
    "ball_query",
    "knn_gather",
    "knn_points",
    "masked_gather",
    "sample_farthest_points",
    "sample_farthest_points_naive",
]
