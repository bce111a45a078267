"""The k nearest neighbours."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds
from torch_cluster._numbers import number_of


def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges from every point of `y` to its k nearest points of `x` in the same cloud.

    Args:
        x: Reference points [N, D] or [N]; any real dtype, on cpu or mps.
        y: Queries [M, D] or [M], same device and D.
        k: Neighbours per query, any number. A cloud with fewer points gives all it has.
        batch_x: Cloud of every row of `x` [N], sorted integers; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.
        cosine: Distance `1 - x·y / (|x| |y|)` in place of the Euclidean one; a zero vector is
            nobody's neighbour and has none.
        num_workers: Ignored.
        batch_size: Number of clouds, if known; at least the largest cloud number + 1.

    Returns:
        Edges [2, E], int64: row 0 the index into `y`, ascending; row 1 the index into `x`, per
        query by distance, then index. Points that are not finite have no edges.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: a batch vector not sorted, a cloud number of `batch_size` or more, one batch
            vector missing where the other has several clouds, sizes that do not fit.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        vectors = {"batch_x": batch_x, "batch_y": batch_y}
        check_kinds("knn", {"x": x, "y": y}, vectors, {"k": k}, {"batch_size": batch_size})
        k = number_of("knn", "k", k)
        batch_size = number_of("knn", "batch_size", batch_size)
    edges: Tensor = torch.ops.mps_pointops.flat_knn(
        x, y, batch_x, batch_y, None, None, k, batch_size, 3 if cosine else 1, False, "knn"
    )
    return edges


def knn_graph(
    x: Tensor,
    k: int,
    batch: Tensor | None = None,
    loop: bool = False,
    flow: str = "source_to_target",
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges between every point and its k nearest points in the same cloud.

    Args:
        x: Points [N, D] or [N]; any real dtype, on cpu or mps.
        k: Neighbours per point.
        batch: Cloud of every point [N], sorted integers; None: one cloud.
        loop: Whether a point counts as its own neighbour. Without, k + 1 are searched and the
            point itself is left out; where more than k points lie in its place it may not be
            among them, and has k + 1 neighbours.
        flow: 'source_to_target': edges from neighbour (row 0) to point (row 1);
            'target_to_source': the rows the other way round.
        cosine: As in `knn`.
        num_workers: Ignored.
        batch_size: Number of clouds, if known; at least the largest of `batch` + 1.

    Returns:
        Edges [2, E], int64, in the order of `knn`.

    Raises:
        TypeError: an argument of the wrong kind.
        AssertionError: another `flow`.
        ValueError: as `knn`.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    assert flow in ("source_to_target", "target_to_source"), (
        f"knn_graph: flow must be 'source_to_target' or 'target_to_source', got '{flow}'"
    )
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_kinds("knn_graph", {"x": x}, {"batch": batch}, {"k": k}, {"batch_size": batch_size})
        k = number_of("knn_graph", "k", k)
        batch_size = number_of("knn_graph", "batch_size", batch_size)
    rule = 3 if cosine else 1
    reverse = flow == "source_to_target"
    edges: Tensor = (
        torch.ops.mps_pointops.flat_knn(
            x, x, batch, batch, None, None, k, batch_size, rule, reverse, "knn_graph"
        )
        if loop
        else torch.ops.mps_pointops.flat_knn_graph(x, batch, k, batch_size, rule, reverse)
    )
    return edges
