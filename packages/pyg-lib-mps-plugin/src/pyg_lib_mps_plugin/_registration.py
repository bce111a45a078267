"""Which operator is served by which function, and their registration with the dispatcher.

Schemas are never defined here: pyg-lib defines them, and a process in which both do is aborted.
A kernel may be registered before its schema exists, so the order of imports has no say, and names
that an older pyg-lib lacks stay without effect.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import torch
import torch.library

# module -> operators; the function there has the operator's name
_PLAIN = {
    "points": "edge_sample fps graclus_cluster grid_cluster knn nearest radius random_walk",
    "indices": "index_sort",
}
# Operators with a gradient: the kernels are made of differentiable parts and stand in for autograd
# too. So a gradient does not depend on what a release of pyg-lib registers.
_DIFFERENTIABLE = {
    "scatter": (
        "gather_coo scatter_max scatter_mean scatter_min scatter_mul scatter_sum "
        "segment_max_coo segment_mean_coo segment_min_coo segment_sum_coo"
    ),
    "segment": (
        "gather_csr segment_max_csr segment_mean_csr segment_min_csr segment_sum_csr "
        "softmax_csr softmax_csr_backward"
    ),
    "dense": "grouped_matmul sampled_op segment_matmul",
    "spline": (
        "spline_basis spline_basis_backward spline_weighting spline_weighting_backward_basis "
        "spline_weighting_backward_weight spline_weighting_backward_x"
    ),
}

# Operators of torch that PyG calls, and that most releases lack on MPS: pointers of batch vectors
# and reductions by pointers.
_OF_TORCH = (
    ("_convert_indices_from_coo_to_csr", "indices", "convert_indices_from_coo_to_csr"),
    ("segment_reduce", "segment_reduce", "segment_reduce"),
    ("_segment_reduce_backward", "segment_reduce", "segment_reduce_backward"),
)

_libraries: list[Any] = []  # registrations live as long as these
_names: list[str] = []


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """A kernel that is imported when it is first called: `import torch` stays light."""
    found: list[Callable[..., Any]] = []

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not found:
            from mps_pointops._registry import opaque

            found.append(opaque(getattr(import_module(f"pyg_lib_mps_plugin._ops.{module}"), name)))
        return found[0](*args, **kwargs)

    return kernel


def _has_kernel(name: str, key: str) -> bool:
    """Whether someone else has registered a kernel for exactly this key."""
    if not torch._C._dispatch_has_kernel(name):
        return False  # no schema yet
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _library(namespace: str) -> Any:
    library: Any = cast(Any, torch.library.Library)(namespace, "IMPL")
    _libraries.append(library)
    return library


def register() -> None:
    """Register every kernel that has no other owner. Does nothing the second time."""
    if _libraries:
        return
    try:
        _register_all()
    except BaseException:
        unregister()  # all or nothing, so that the next call can try again
        raise


def _register_all() -> None:
    pyg = _library("pyg")
    for table in (_PLAIN, _DIFFERENTIABLE):
        for module, names in table.items():
            for name in names.split():
                if _has_kernel(f"pyg::{name}", "MPS"):
                    continue  # a pyg-lib with kernels of its own
                kernel = _lazy(module, name)
                pyg.impl(name, kernel, "MPS")
                if table is _DIFFERENTIABLE:
                    pyg.impl(name, kernel, "AutogradMPS")
                _names.append(f"pyg::{name}")
    aten = _library("aten")
    for name, module, function in _OF_TORCH:
        if any(_has_kernel(f"aten::{name}{form}", "MPS") for form in ("", ".out")):
            continue  # a torch with a kernel of its own
        aten.impl(name, _lazy(module, function), "MPS")
        _names.append(f"aten::{name}")


def unregister() -> None:
    """Drop every registration."""
    for library in _libraries:
        library._destroy()
    _libraries.clear()
    _names.clear()


def registered() -> tuple[str, ...]:
    """Full names of the operators that are registered now, sorted."""
    return tuple(sorted(_names))
