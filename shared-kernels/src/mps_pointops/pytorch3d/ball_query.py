"""Ball query of padded clouds."""

from __future__ import annotations

from torch import Tensor

from mps_pointops._checks import as_float, as_int, check_pair, refuse_forward_mode
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.ball_query import ball_search
from mps_pointops.pytorch3d.gather import masked_gather
from mps_pointops.pytorch3d.knn import KNN, searched
from mps_pointops.pytorch3d.lengths import Rows, in_cloud


def ball_query(
    p1: Tensor,
    p2: Tensor,
    lengths1: Tensor | None = None,
    lengths2: Tensor | None = None,
    K: int = 500,
    radius: float = 0.2,
    return_nn: bool = True,
    skip_points_outside_cube: bool = False,
) -> KNN:
    """The first K points of `p2`, in input order, strictly inside a ball around points of `p1`.

    Args:
        p1: Centres [N, P1, D], any D >= 1; float32, float16 or bfloat16 (widened to float32), on
            the CPU also float64 (searched in float64); on cpu or mps.
        p2: Points [N, P2, D] that are searched, same device.
        lengths1: How many centres of each cloud are real [N], int64 or int32, on the device of the
            points or on the CPU; None: all.
        lengths2: How many points of `p2` are real [N], likewise.
        K: Slots per centre, >= 0. It may exceed P2.
        radius: Radius of the balls, in the unit of the points, >= 0. A point is inside when its
            squared distance is below `fl32(fl32(radius) * fl32(radius))`; infinity: every point at
            a finite distance.
        return_nn: Whether to return the points too.
        skip_points_outside_cube: Accepted; it can change no result.

    Returns:
        KNN of `dists`, squared distances [N, P1, K]; `idx` into P2 [N, P1, K], int64; and `knn`,
        points [N, P1, K, D], or None. Slots without a point, and all of centres beyond `lengths1`,
        hold distance 0, index -1 and zeros.

    Raises:
        TypeError, ValueError: as `mps_pointops.ball_query`; lengths outside 0 to the padded size,
            which are looked at on the CPU; on MPS only with MPS_POINTOPS_CHECK_INDICES=1, and
            count as 0 or all points otherwise.

    `dists` and `knn` have gradients in the coordinates, of any order, for the points that were
    chosen; `knn` in `p2` only. Contract: `pytorch3d/README.md`.
    """
    op = "pytorch3d.ball_query"
    p1, p2 = check_pair(op, "p1", p1, "p2", p2, rank=3, double=True)
    clouds, rows, dim = p1.shape
    K, radius = as_int(op, "K", K), as_float(op, "radius", radius, infinite=True)
    refuse_forward_mode(op, p1, p2)
    where = Rows(op, p1, p2, lengths1, lengths2)
    left, right = searched(p1, p2)
    distance, index = ball_search(
        left.reshape(clouds * rows, dim),
        right.reshape(clouds * p2.shape[1], dim),
        where.first,
        where.last,
        clouds if where.first is None else 1,
        K,
        radius,
        True,
        False,
        Rule.FMA_XYZ.value,
    )
    index = in_cloud(index.view(clouds, rows, K), where.base)
    nearest = masked_gather(p2, index) if return_nn else None
    return KNN(distance.view(clouds, rows, K), index, nearest)
