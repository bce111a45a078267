"""The operators `torch.ops.torch_cluster.*`: the original's names and kinds of arguments.

Thin calls of `torch.ops.mps_pointops.*`. The Python functions of this package do not go through
them, because those look at batch vectors where these have pointers; they are for callers of the
operators, and for TorchScript files that were saved with the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from mps_pointops._registry import opaque

_FMA_XYZ = 1  # one fused multiply-add per coordinate, as the CUDA kernels compute
_COSINE = 3
_LOWEST_INDEX = 0

_ops = torch.ops.mps_pointops
# torch leaves these untyped; the object must stay alive
_library: Any = cast(Any, torch.library.Library)("torch_cluster", "FRAGMENT")


def _fps(src: Tensor, ptr: Tensor, ratio: Tensor, random_start: bool) -> Tensor:
    return _ops.flat_fps(  # type: ignore[no-any-return]
        src, None, ptr, ratio, random_start, None, _FMA_XYZ, _LOWEST_INDEX, "fps"
    )


def _knn(
    x: Tensor,
    y: Tensor,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    k: int,
    cosine: bool,
    num_workers: int,
) -> Tensor:
    rule = _COSINE if cosine else _FMA_XYZ
    limits = (k, None, rule, False, "knn")
    return _ops.flat_knn(x, y, None, None, ptr_x, ptr_y, *limits)  # type: ignore[no-any-return]


def _radius(
    x: Tensor,
    y: Tensor,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    r: float,
    max_num_neighbors: int,
    num_workers: int,
    ignore_same_index: bool = False,
) -> Tensor:
    limits = (r, max_num_neighbors, None, ignore_same_index, _FMA_XYZ, False, "radius")
    return _ops.flat_radius(x, y, None, None, ptr_x, ptr_y, *limits)  # type: ignore[no-any-return]


def _nearest(x: Tensor, y: Tensor, ptr_x: Tensor, ptr_y: Tensor) -> Tensor:
    return _ops.flat_nearest(x, y, None, None, ptr_x, ptr_y, _FMA_XYZ)  # type: ignore[no-any-return]


def _grid(pos: Tensor, size: Tensor, start: Tensor | None, end: Tensor | None) -> Tensor:
    return _ops.grid_cluster(pos, size, start, end)  # type: ignore[no-any-return]


def _graclus(rowptr: Tensor, col: Tensor, weight: Tensor | None) -> Tensor:
    return _ops.graclus_csr(rowptr, col, weight)  # type: ignore[no-any-return]


def _random_walk(
    rowptr: Tensor, col: Tensor, start: Tensor, walk_length: int, p: float, q: float
) -> tuple[Tensor, Tensor]:
    return _ops.random_walk(rowptr, col, start, walk_length, p, q)  # type: ignore[no-any-return]


def _neighbor_sampler(start: Tensor, rowptr: Tensor, count: int, factor: float) -> Tensor:
    return _ops.neighbor_sampler(start, rowptr, count, factor)  # type: ignore[no-any-return]


def cuda_version() -> int:
    """CUDA version of the build: -1, there is none."""
    return -1


_RANDOM = (torch.Tag.nondeterministic_seeded,)
_OPERATORS: tuple[tuple[str, Callable[..., Any], tuple[torch.Tag, ...]], ...] = (
    ("fps(Tensor src, Tensor ptr, Tensor ratio, bool random_start) -> Tensor", _fps, _RANDOM),
    (
        "knn(Tensor x, Tensor y, Tensor? ptr_x, Tensor? ptr_y, int k, bool cosine, "
        "int num_workers) -> Tensor",
        _knn,
        (),
    ),
    (
        "radius(Tensor x, Tensor y, Tensor? ptr_x, Tensor? ptr_y, float r, int max_num_neighbors, "
        "int num_workers, bool ignore_same_index=False) -> Tensor",
        _radius,
        (),
    ),
    ("nearest(Tensor x, Tensor y, Tensor ptr_x, Tensor ptr_y) -> Tensor", _nearest, ()),
    ("grid(Tensor pos, Tensor size, Tensor? start, Tensor? end) -> Tensor", _grid, ()),
    ("graclus(Tensor rowptr, Tensor col, Tensor? weight) -> Tensor", _graclus, _RANDOM),
    (
        "random_walk(Tensor rowptr, Tensor col, Tensor start, int walk_length, float p, float q) "
        "-> (Tensor, Tensor)",
        _random_walk,
        _RANDOM,
    ),
    (
        "neighbor_sampler(Tensor start, Tensor rowptr, int count, float factor) -> Tensor",
        _neighbor_sampler,
        _RANDOM,
    ),
)


def _register() -> None:
    for schema, kernel, tags in _OPERATORS:
        name = schema.partition("(")[0]
        _library.define(schema, tags=tags)
        _library.impl(name, opaque(kernel), "CPU")
        _library.impl(name, opaque(kernel), "MPS")
        # traced, the calls above go to their own fake kernels
        torch.library.register_fake(f"torch_cluster::{name}", kernel, lib=_library)
    _library.define("cuda_version() -> int")
    _library.impl("cuda_version", cuda_version, "CompositeImplicitAutograd")


def _check_free() -> None:
    """The original's compiled operators, loaded by hand before, cannot be defined again."""
    if hasattr(torch.ops.torch_cluster, "knn"):
        raise ImportError(
            "torch_cluster: its operators are already registered in this process by another build "
            "of torch_cluster; torch-cluster-mps cannot register them again. Remove one of both: "
            "pip uninstall -y torch-cluster"
        )


_check_free()
_register()
