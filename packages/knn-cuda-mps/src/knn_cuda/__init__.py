"""k nearest neighbours under the import name of KNN_CUDA, for `mps` and CPU tensors.

A stand-in, not affiliated with the original: its names, layouts, order and arithmetic, with the
kernels of mps-pointops. Importing it and building `KNN` touch no device.
"""

from __future__ import annotations

from torch import Tensor, nn

import mps_pointops
from mps_pointops._owners import check_owner

__version__ = "0.2"  # the API level
__mps_version__ = "0.1.0"

__all__ = ["KNN", "knn"]

check_owner("knn_cuda", "knn-cuda-mps", ["knn-cuda"], __file__)


def _check_axes(call: str, name: str, points: Tensor, shape: str, hint: str) -> None:
    if not isinstance(points, Tensor):
        raise TypeError(f"{call}: {name} must be a torch.Tensor, got {type(points).__name__}")
    if points.is_complex():
        raise TypeError(f"{call}: {name} must be of a real dtype, got {points.dtype}")
    if points.dim() != shape.count(",") + 1:
        got = list(points.shape)
        raise ValueError(f"{call}: {name} must be of shape {shape}, got shape {got}; {hint}")


def _search(ref: Tensor, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Points as rows (B, N, D); arithmetic and order of the CUDA kernel."""
    distance, index = mps_pointops.knn(query.float(), ref.float(), k, rule="fma_xyz")
    # Points that are not finite are no neighbours. Slots left over keep an index that exists,
    # because callers flatten it over the batch, where -1 would be a point of another cloud.
    return distance, index.clamp(min=0)


def knn(ref: Tensor, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k points of `ref` nearest to every point of `query`, for one cloud.

    Args:
        ref: Reference points [D, N] as columns, any real dtype (computed in float32).
        query: Queries [D, M], same device.
        k: Neighbours per query, at most N.

    Returns:
        Euclidean distances [k, M], float32, ascending, and indices into N [k, M], int64, from 0.
        Ties of the squared float32 distance go to the smaller index.

    Raises:
        TypeError: `ref` or `query` is no real tensor, `k` is no integer.
        ValueError: wrong shapes, different devices, k > N.

    There is no gradient.
    """
    for name, points in (("ref", ref), ("query", query)):
        _check_axes("knn", name, points, "(D, points)", "for batches use knn_cuda.KNN(k)")
    distance, index = _search(ref.t()[None], query.t()[None], k)
    return distance[0].t().contiguous(), index[0].t().contiguous()


class KNN(nn.Module):
    """k nearest neighbours of batches of clouds.

    Args:
        k: Neighbours per query, at most the number of reference points.
        transpose_mode: True for points as rows (B, N, D), False for columns (B, D, N).

    The module has no parameters, buffers or device; it can be copied, pickled and built before any
    device is chosen.
    """

    def __init__(self, k: int, transpose_mode: bool = False) -> None:
        super().__init__()
        # the attributes have these names in modules that were pickled with the original
        self.k = k
        self._t = transpose_mode

    def forward(self, ref: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """The k points of `ref` nearest to every point of `query`, cloud by cloud.

        Args:
            ref: Reference points [B, N, D], or [B, D, N] without `transpose_mode`; any D, any
                strides, any real dtype (computed in float32).
            query: Queries [B, M, D] or [B, D, M], same device.

        Returns:
            Euclidean distances, float32, ascending, and indices into N, int64, from 0; both
            [B, M, k], or [B, k, M] without `transpose_mode`. Ties of the squared float32
            distance go to the smaller index. Points with a NaN or infinite coordinate are nobody's
            neighbours and have none; slots left over hold distance inf and index 0.

        Raises:
            AssertionError: batch sizes differ.
            TypeError: `ref` or `query` is no real tensor, `k` is no integer.
            ValueError: wrong shapes, different devices, k > N.

        There is no gradient.
        """
        shape = "(B, points, D)" if self._t else "(B, D, points)"
        for name, points in (("ref", ref), ("query", query)):
            _check_axes("KNN", name, points, shape, "one cloud is a batch of one")
        assert ref.shape[0] == query.shape[0], (
            f"KNN: batch sizes must agree, got ref.shape={list(ref.shape)} != "
            f"query.shape={list(query.shape)}"
        )
        if self._t:
            return _search(ref, query, self.k)
        distance, index = _search(ref.transpose(1, 2), query.transpose(1, 2), self.k)
        return distance.transpose(1, 2).contiguous(), index.transpose(1, 2).contiguous()

    def extra_repr(self) -> str:
        """Arguments, as `print(model)` shows them."""
        return f"k={self.k}, transpose_mode={self._t}"
