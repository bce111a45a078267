"""All neighbours within a radius."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds
from torch_cluster._numbers import number_of


def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    max_num_neighbors: int | None = 32,
    num_workers: int = 1,
    batch_size: int | None = None,
    ignore_same_index: bool = False,
) -> Tensor:
    """Edges from every point of `y` to the points of `x` in its cloud that are closer than r.

    Args:
        x: Reference points [N, D] or [N]; any real dtype, on cpu or mps.
        y: Queries [M, D] or [M], same device and D.
        r: Radius, in the unit of `x`. A point is inside when its squared distance is below the
            square of r, which is computed in float64 and rounded once.
        batch_x: Cloud of every row of `x` [N], sorted integers; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.
        max_num_neighbors: Edges per query at most, the first in the order of `x`; None: no limit.
            The default of 32 leaves edges out without a word.
        num_workers: Ignored.
        batch_size: Number of clouds, if known; at least the largest cloud number + 1.
        ignore_same_index: Leave out pairs of equal row number, before counting.

    Returns:
        Edges [2, E], int64: row 0 the index into `y`, ascending; row 1 the index into `x`,
        ascending per query.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a batch vector not sorted, a cloud number of `batch_size` or more, one batch
            vector missing where the other has several clouds, sizes that do not fit.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        vectors = {"batch_x": batch_x, "batch_y": batch_y}
        counts = {"max_num_neighbors": max_num_neighbors, "batch_size": batch_size}
        check_kinds("radius", {"x": x, "y": y}, vectors, {}, counts, {"r": r})
        r = number_of("radius", "r", r)
        max_num_neighbors = number_of("radius", "max_num_neighbors", max_num_neighbors)
        batch_size = number_of("radius", "batch_size", batch_size)
    edges: Tensor = torch.ops.mps_pointops.flat_radius(
        x,
        y,
        batch_x,
        batch_y,
        None,
        None,
        r,
        max_num_neighbors,
        batch_size,
        ignore_same_index,
        1,
        False,
        "radius",
    )
    return edges


def radius_graph(
    x: Tensor,
    r: float,
    batch: Tensor | None = None,
    loop: bool = False,
    max_num_neighbors: int | None = 32,
    flow: str = "source_to_target",
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges between every point and the points of its cloud that are closer than r.

    Args:
        x: Points [N, D] or [N]; any real dtype, on cpu or mps.
        r: Radius, as in `radius`.
        batch: Cloud of every point [N], sorted integers; None: one cloud.
        loop: Whether a point counts as its own neighbour. Without, it is left out before counting.
        max_num_neighbors: Neighbours per point at most, the first in the order of `x`; None: no
            limit. The default of 32 leaves edges out without a word.
        flow: 'source_to_target': edges from neighbour (row 0) to point (row 1);
            'target_to_source': the rows the other way round.
        num_workers: Ignored.
        batch_size: Number of clouds, if known; at least the largest of `batch` + 1.

    Returns:
        Edges [2, E], int64, in the order of `radius`.

    Raises:
        TypeError: an argument of the wrong kind.
        AssertionError: another `flow`.
        ValueError: as `radius`.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    assert flow in ("source_to_target", "target_to_source"), (
        f"radius_graph: flow must be 'source_to_target' or 'target_to_source', got '{flow}'"
    )
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        counts = {"max_num_neighbors": max_num_neighbors, "batch_size": batch_size}
        check_kinds("radius_graph", {"x": x}, {"batch": batch}, {}, counts, {"r": r})
        r = number_of("radius_graph", "r", r)
        max_num_neighbors = number_of("radius_graph", "max_num_neighbors", max_num_neighbors)
        batch_size = number_of("radius_graph", "batch_size", batch_size)
    reverse = flow == "source_to_target"
    edges: Tensor = torch.ops.mps_pointops.flat_radius(
        x,
        x,
        batch,
        batch,
        None,
        None,
        r,
        max_num_neighbors,
        batch_size,
        not loop,
        1,
        reverse,
        "radius_graph",
    )
    return edges
