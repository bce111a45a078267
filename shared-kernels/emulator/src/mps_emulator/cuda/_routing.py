"""Leads calls with CUDA tensors to what packages have for MPS."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import _counts

_installed = False
_libraries: list[Any] = []  # alive as long as their kernels


def install(*, without_gpu: bool = False) -> None:
    """Makes CUDA tensors take the MPS code path of packages.

    ``torch.mps.compile_shader`` compiles for the card and ``torch.mps.synchronize`` waits for it.
    Operators outside of PyTorch that have a kernel for ``MPS``, now or later, and none for ``CUDA``
    get it for ``CUDA`` too. Calling it again is harmless.

    Args:
        without_gpu: Whether to go on where no card is visible: operators are then registered, and
            calling them fails.

    Raises:
        RuntimeError: If no card is visible, or there is an ``mps`` device, real or emulated.
    """
    global _installed
    if _installed:
        return
    import mps_emulator

    if mps_emulator.is_installed() or torch._C._mps_is_available():
        raise RuntimeError(
            "mps_emulator.cuda.install() needs a process without an mps device, real or emulated"
        )
    if not without_gpu and not torch.cuda.is_available():
        raise RuntimeError("mps_emulator.cuda.install() needs an NVIDIA GPU that PyTorch can use")
    for name in _registered_operators():
        _redispatch(name)
    _register_for_both()
    _give_functions()
    _installed = True


def is_installed() -> bool:
    """Returns whether CUDA tensors take the MPS code path in this process."""
    return _installed


def _registered_operators() -> list[str]:
    """Returns operators with an MPS kernel that PyTorch itself does not have."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key("MPS")
    own = ("aten::", "prim", "quantized::", "profiler::", "_quantized::", "torch")
    return sorted(name for name in names if not name.startswith(own))


def _redispatch(name: str) -> None:
    """Leads an operator that is registered already from CUDA to its MPS kernel."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
        return
    namespace, _, operator = name.partition("::")
    operator, _, overload = operator.partition(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None:  # kernels of an operator that nobody has defined
        return
    found = getattr(packet, overload or "default")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.MPS)
    library: Any = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    library.impl(name, functools.partial(found.redispatch, keys), "CUDA")
    _libraries.append(library)


def _register_for_both() -> None:
    library: Any = torch.library.Library
    original = library.impl

    @functools.wraps(original)
    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        result = original(self, op_name, fn, dispatch_key, **options)
        key = dispatch_key or self.dispatch_key
        if key == "MPS" and callable(fn) and not _has_kernel(self, op_name):
            original(self, op_name, _counted(fn), "CUDA", **options)
        return result

    library.impl = impl


def _has_kernel(library: Any, op_name: Any) -> bool:
    name = op_name if isinstance(op_name, str) else op_name._schema.name
    if isinstance(op_name, torch._ops.OpOverload) and op_name._overloadname != "default":
        name = f"{name}.{op_name._overloadname}"
    if "::" not in name:
        name = f"{library.ns}::{name}"
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel inside of which counters see the operators, as they do outside of it."""

    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not _counts.is_open():
            return function(*args, **kwargs)
        with _counts.inside():
            return function(*args, **kwargs)

    return kernel


def _give_functions() -> None:
    from ._library import compile_shader

    functions: dict[str, Any] = {
        "_mps_compileShader": compile_shader,
        "_mps_deviceSynchronize": _synchronize,
        "_mps_emptyCache": torch.cuda.empty_cache,
        "_mps_currentAllocatedMemory": torch.cuda.memory_allocated,
        "_mps_driverAllocatedMemory": torch.cuda.memory_reserved,
    }
    for name, function in functions.items():
        setattr(torch._C, name, function)


def _synchronize() -> None:
    if not torch.cuda.is_current_stream_capturing():  # a graph runs in order anyway
        torch.cuda.synchronize()
