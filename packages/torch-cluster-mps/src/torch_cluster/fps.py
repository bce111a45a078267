"""Farthest point sampling."""
# ruff: noqa: D103, F811  # overloads; TorchScript reads comments on the lines of a function

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds
from torch_cluster._numbers import number_of


# TorchScript picks one of these by the types of the arguments.
@torch.jit._overload
def fps(
    src: Tensor,
    batch: Tensor | None = None,
    ratio: float | None = None,
    random_start: bool = True,
    batch_size: int | None = None,
    ptr: Tensor | None = None,
) -> Tensor: ...


@torch.jit._overload  # type: ignore[no-redef]
def fps(
    src: Tensor,
    batch: Tensor | None = None,
    ratio: Tensor | None = None,
    random_start: bool = True,
    batch_size: int | None = None,
    ptr: Tensor | None = None,
) -> Tensor: ...


@torch.jit._overload  # type: ignore[no-redef]
def fps(
    src: Tensor,
    batch: Tensor | None = None,
    ratio: float | None = None,
    random_start: bool = True,
    batch_size: int | None = None,
    ptr: list[int] | None = None,
) -> Tensor: ...


@torch.jit._overload  # type: ignore[no-redef]
def fps(
    src: Tensor,
    batch: Tensor | None = None,
    ratio: Tensor | None = None,
    random_start: bool = True,
    batch_size: int | None = None,
    ptr: list[int] | None = None,
) -> Tensor: ...


def fps(  # type: ignore[no-redef]
    src: Tensor,
    batch: Tensor | None = None,
    ratio: float | Tensor | None = None,
    random_start: bool = True,
    batch_size: int | None = None,
    ptr: Tensor | list[int] | None = None,
) -> Tensor:
    """Pick a part of every cloud, each point the farthest from those already picked.

    Args:
        src: Points [N, ...], flattened to [N, D]; any real dtype, on cpu or mps.
        batch: Cloud of every point [N], sorted integers; None: one cloud.
        ratio: Part of each cloud: a number, a tensor of one number, or one number per cloud [B];
            None: 0.5. `ceil(n * ratio)` of n points are picked, computed in the dtype of `ratio`,
            which for a number is that of `src`. Above 1, picks repeat.
        random_start: First pick of a cloud drawn from torch's generator of the device; else the
            first point.
        batch_size: Number of clouds, if known; at least the largest of `batch` + 1.
        ptr: Where clouds begin [B + 1], a tensor or a list, in place of `batch`.

    Returns:
        Indices into `src` [S], int64, cloud by cloud in the order of picking; equally far points
        by index. Clouds without points have no picks. Points that are not finite are never picked,
        except as the first.

    Raises:
        TypeError: an argument of the wrong kind.
        AssertionError: `batch` has another length than `src`.
        ValueError: `batch` not sorted, a cloud number of `batch_size` or more, a `ptr` that does
            not ascend from 0 to N, a `ratio` that is negative or of another length.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        vectors = {"batch": batch, "ptr": None if isinstance(ptr, (list, tuple)) else ptr}
        check_kinds("fps", {"src": src}, vectors, {}, {"batch_size": batch_size})
        batch_size = number_of("fps", "batch_size", batch_size)
        if ratio is not None and not isinstance(ratio, Tensor):
            check_kinds("fps", {}, numbers={"ratio": ratio})
        if isinstance(ptr, (list, tuple)):
            for begin in ptr:
                if type(begin) is not int:
                    check_kinds("fps", {}, numbers={"ptr": begin})
    part: Tensor | None = None
    if ratio is not None:
        if isinstance(ratio, Tensor):
            part = ratio
        else:
            dtype = src.dtype if src.is_floating_point() else torch.float32
            part = torch.tensor(ratio, dtype=dtype, device="cpu")

    begins: Tensor | None = None
    if ptr is not None:  # it wins over batch, as in the original
        batch = None
        # a list stays on the host, where nothing has to be read back
        begins = ptr if isinstance(ptr, Tensor) else torch.tensor(ptr, device="cpu")
    if batch is None:
        batch_size = None
    else:
        assert batch.numel() == src.size(0), "fps: batch must have one cloud number a row of src"
    picks: Tensor = torch.ops.mps_pointops.flat_fps(
        src, batch, begins, part, random_start, batch_size, 1, 0, "fps"
    )
    return picks
