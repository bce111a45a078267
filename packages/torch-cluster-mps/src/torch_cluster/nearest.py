"""The nearest point of another set."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds


def nearest(
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
) -> Tensor:
    """For every point of `x` the nearest point of `y` in the same cloud.

    Args:
        x: Points [N, D] or [N]; any real dtype, on cpu or mps.
        y: Points to choose from [M, D] or [M], same device and D.
        batch_x: Cloud of every row of `x` [N], sorted integers; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.

    Returns:
        Indices into `y` [N], int64, on the device of `x`; equally near points by index.

    Raises:
        TypeError: an argument of the wrong kind.
        AssertionError: different D.
        ValueError: a batch vector not sorted or of the wrong length, a cloud that only one of the
            two has, `y` empty.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_kinds("nearest", {"x": x, "y": y}, {"batch_x": batch_x, "batch_y": batch_y})
    assert x.shape[1:].numel() == y.shape[1:].numel(), (
        f"nearest: x and y must have the same dimension, got {list(x.shape)} and {list(y.shape)}"
    )
    index: Tensor = torch.ops.mps_pointops.flat_nearest(x, y, batch_x, batch_y, None, None, 1)
    return index
