"""Binds Python arguments to a kernel's buffers, as torch does, and checks what torch does not."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import options
from ._abi import BOOL, FLOAT, OTHER, POINTER, REFERENCE
from ._pipeline import UNASKED_THREADS, Signature, Slot

_CASTS = {
    "fp16": ("e", FLOAT),
    "bf16": ("bf16", FLOAT),
    "int32": ("i", None),
    "int16": ("h", None),
    "int8": ("b", None),
    "uint8": ("B", None),
}
_SETBYTES_LIMIT = 4096


class Binding:
    """One bound buffer: the bytes that lanes may touch and where parameter 0 of them lies.

    Args:
        address: What the kernel gets.
        start: First byte of the memory.
        size: Bytes of the memory.
        keep: Object that owns the memory.
        shown: What the argument is, for messages.
        by_value: Whether the memory is a copy of a Python value.
    """

    def __init__(
        self,
        address: int,
        start: int,
        size: int,
        keep: object,
        shown: str,
        *,
        by_value: bool = False,
    ) -> None:
        self.address, self.start, self.size = address, start, size
        self.keep, self.shown, self.by_value = keep, shown, by_value


def bind(
    signature: Signature,
    args: Sequence[Any],
    arg_casts: str | Mapping[int, str] | None,
    device: str = "mps",
) -> list[Binding]:
    """Returns one binding per argument, in the order of the arguments.

    Args:
        signature: The kernel.
        args: Positional arguments of the call; argument i is buffer i.
        arg_casts: Types that scalars are sent as.
        device: Type of the device that tensors must be on.
    """
    slots = {slot.index: slot for slot in signature.slots if slot is not None}
    where = f"kernel '{signature.kernel.name}' ({signature.kernel.at(signature.kernel.line)})"
    converted = [_convert(where, i, arg, _cast(arg_casts, i), device) for i, arg in enumerate(args)]
    if len(args) != len(slots) or set(slots) != set(range(len(args))):
        names = ", ".join(f"{i}: {slots[i].parameter.name}" for i in sorted(slots))
        raise RuntimeError(
            f"{where} takes {len(slots)} buffer arguments ({names}), got {len(args)}; on a Mac "
            "a missing one silently keeps what an earlier kernel bound"
        )
    for i, (arg, binding) in enumerate(zip(args, converted, strict=True)):
        _check(signature, slots[i], arg, binding, _cast(arg_casts, i))
    return converted


def _cast(arg_casts: str | Mapping[int, str] | None, i: int) -> str | None:
    name = arg_casts if arg_casts is None or isinstance(arg_casts, str) else arg_casts.get(i)
    if name is not None and name not in _CASTS:
        raise RuntimeError(
            f"Unsupported cast type {name!r} for argument {i}; known are {', '.join(_CASTS)}"
        )
    return name


def _convert(where: str, i: int, arg: Any, cast: str | None, device: str) -> Binding:
    if isinstance(arg, torch.Tensor):
        return _tensor(where, i, arg, device)
    if isinstance(arg, (list, tuple)):
        return _sequence(i, arg, cast)
    if isinstance(arg, (bool, int, float)):
        return _bytes(
            _pack(i, [arg], isinstance(arg, float), cast), f"{type(arg).__name__} {arg!r}"
        )
    raise TypeError(f"Unsupported argument type {type(arg).__name__!r} for argument {i}")


def _sequence(i: int, arg: Sequence[Any], cast: str | None) -> Binding:
    if not arg:
        raise RuntimeError(f"argument {i} is an empty {type(arg).__name__}, which cannot be bound")
    first = arg[0]
    if isinstance(first, torch.Tensor):
        raise RuntimeError(
            f"argument {i} is a list of tensors; arrays of buffers are not supported here: on a "
            "Mac they work only when the same tensors are bound as ordinary arguments too"
        )
    if not isinstance(first, (bool, int, float)):
        raise TypeError(
            f"Unsupported argument type: {type(arg).__name__} of {type(first).__name__}"
        )
    real = isinstance(first, float)
    for value in arg:
        if not isinstance(value, (bool, int, float)) or (isinstance(value, float) and not real):
            raise TypeError(
                f"argument {i}: the first element makes it a list of "
                f"{'float' if real else 'int'}, but it holds {value!r}"
            )
    kind = "floats" if real else "ints"
    return _bytes(_pack(i, arg, real, cast), f"{type(arg).__name__} of {len(arg)} {kind}")


def _pack(i: int, values: Sequence[Any], real: bool, cast: str | None) -> bytes:
    code = ("f" if real else "q") if cast is None else _CASTS[cast][0]
    if code == "f":  # rounds to nearest, overflow gives infinity
        return b"".join(bytes(ctypes.c_float(v)) for v in values)
    if code in ("e", "bf16"):
        dtype = torch.float16 if code == "e" else torch.bfloat16
        half = torch.tensor([float(v) for v in values], dtype=torch.float32).to(dtype)
        return half.view(torch.int16).numpy().tobytes()
    try:
        size = struct.calcsize(code)
        wide = [int(v) for v in values]
        if cast is None:
            return struct.pack(f"={len(wide)}q", *wide)
        return b"".join((v & ((1 << 8 * size) - 1)).to_bytes(size, "little") for v in wide)
    except struct.error:
        raise RuntimeError(f"argument {i}: an integer does not fit in 64 bits") from None


def _bytes(data: bytes, shown: str) -> Binding:
    if len(data) > _SETBYTES_LIMIT:
        raise RuntimeError(
            f"{shown} has {len(data)} bytes, over the {_SETBYTES_LIMIT} that can be passed by "
            "value; use a tensor"
        )
    room = ctypes.create_string_buffer(len(data) + 16)  # 16: so that it can be aligned
    address = -(-ctypes.addressof(room) // 16) * 16
    ctypes.memmove(address, data, len(data))
    return Binding(address, address, len(data), room, shown, by_value=True)


def _tensor(where: str, i: int, tensor: torch.Tensor, device: str) -> Binding:
    shown = f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"
    fake = isinstance(tensor, FakeTensor)
    if (
        tensor.device.type == "cpu"
        and not fake
        and not (options.allow_cpu_tensors and tensor.dim() and device == "mps")
    ):
        if tensor.dim() > 0:
            raise RuntimeError("Passed CPU tensor to MPS op")
        value = tensor.detach().to(torch.float32) if tensor.dtype is torch.float64 else tensor
        data = value.detach().reshape(1).contiguous().view(torch.uint8).numpy().tobytes()
        return _bytes(data, f"0-dim CPU {shown}")
    if tensor.device.type not in (device, "cpu"):
        raise RuntimeError(
            f"{where}: argument {i} is on device '{tensor.device}', expected '{device}'"
        )
    address = 0 if fake else tensor.data_ptr()
    if not address and tensor.numel():
        raise RuntimeError(
            f"{where}: argument {i}, {shown}, has no memory (a fake or meta tensor); kernels need "
            "real tensors, so call them inside an operator"
        )
    storage = tensor.untyped_storage()
    start = storage.data_ptr() if address else 0
    offset = int(tensor.storage_offset()) * tensor.element_size()
    return Binding(start + offset if start else 0, start, storage.nbytes(), tensor, shown)


def _check(signature: Signature, slot: Slot, arg: Any, binding: Binding, cast: str | None) -> None:
    """Refuses an argument whose bytes do not fit the parameter's type."""
    kind, name = slot.type, slot.parameter.name
    kernel = signature.kernel
    where = (
        f"kernel '{kernel.name}' ({kernel.at(slot.parameter.line)}): argument {slot.index} "
        f"for parameter '{name}'"
    )
    device = isinstance(arg, torch.Tensor) and (arg.dim() > 0 or arg.device.type != "cpu")
    if device:
        item = arg.element_size()
        fits = item in (kind.scalar_size, kind.size) or (
            kind.scalar_kind == OTHER and (kind.size == 1 or kind.size % item == 0)
        )
        if not fits:
            raise RuntimeError(
                f"{where} has elements of {item} bytes ({binding.shown}), the parameter expects "
                f"{_described(slot)}"
            )
        if binding.address % kind.align:
            raise RuntimeError(
                f"{where} starts at byte {binding.address - binding.start} of its storage; the "
                f"parameter needs an alignment of {kind.align} bytes"
            )
        return
    if slot.parameter.space == "device":
        raise RuntimeError(
            f"{where} is passed by value ({binding.shown}), but the parameter is in device "
            "memory: declare it constant or pass a tensor"
        )
    one = not isinstance(arg, (list, tuple))
    item = binding.size if one else binding.size // len(arg)
    if kind.kind == REFERENCE:
        fits = binding.size == kind.size
    else:
        fits = binding.size % kind.size == 0 or (kind.scalar_kind == OTHER)
    if kind.scalar_kind != OTHER and item not in (kind.scalar_size, kind.size):
        fits = False
    if not fits:
        advice = "pass a list or use arg_casts" if kind.kind == POINTER else "use arg_casts"
        if not one or cast is not None:
            advice = "pass as many values of that type"
        elif isinstance(arg, int) and kind.scalar_kind not in (FLOAT, OTHER):
            advice = f"declare it 'constant long& {name}' or use arg_casts"
        raise RuntimeError(
            f"{where} has {binding.size} bytes ({binding.shown}), the parameter expects "
            f"{_described(slot)}; {advice}"
        )
    values = arg if isinstance(arg, (list, tuple)) else [arg]
    if isinstance(values[0], (bool, int, float)) and kind.scalar_kind != OTHER:
        real = (_CASTS[cast][1] == FLOAT) if cast else isinstance(values[0], float)
        if real != (kind.scalar_kind == FLOAT) and kind.scalar_kind != BOOL:
            raise RuntimeError(
                f"{where} is {binding.shown}, sent as {'float' if real else 'integer'} bits, but "
                f"the parameter expects {_described(slot)}"
            )


def _described(slot: Slot) -> str:
    kind = slot.type
    names = {0: "a structure", 1: "float", 2: "signed integer", 3: "unsigned integer", 4: "bool"}
    text = names[kind.scalar_kind]
    if kind.components > 1:
        return f"{kind.components} x {text} of {kind.scalar_size} bytes ({kind.size} in all)"
    return f"{text} of {kind.size} bytes"


def grid_and_group(
    signature: Signature,
    args: Sequence[Any],
    threads: int | Sequence[int] | None,
    group_size: int | Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """Returns the sizes of a grid and of its threadgroups, three numbers each.

    Args:
        signature: The kernel.
        args: Positional arguments of the call.
        threads: What the call says of the grid.
        group_size: What it says of the threadgroups.
    """
    limit, name = signature.max_threads, signature.kernel.name
    grid = _sizes("threads", threads)
    group = _sizes("group_size", group_size)
    if grid is None:
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        grid = None if first is None else [first.numel()]
    if grid is None or not 1 <= len(grid) <= 3:
        raise RuntimeError("Number of threads is undefined or has wrong dimension")
    if group is not None and len(group) != len(grid):
        raise RuntimeError(
            f"kernel '{name}': threads has {len(grid)} dimensions, group_size {len(group)}"
        )
    if min(grid) <= 0 or max(grid) >= 1 << 32:
        raise RuntimeError(
            f"kernel '{name}': threads={tuple(grid)}: each must be from 1 to 2**32 - 1; an "
            "empty grid is undefined on a Mac, so return before the launch"
        )
    given = group is not None
    if group is None:
        group = [min(grid[0], limit) if len(grid) == 1 else limit, 1, 1][: len(grid)]
    if min(group) <= 0:
        raise RuntimeError(f"kernel '{name}': group_size={tuple(group)} must be positive")
    if math.prod(group) > limit:
        raise ValueError(f"Threadgroup size exceeds {limit} limit")
    if given and math.prod(group) > UNASKED_THREADS and signature.kernel.max_threads is None:
        raise ValueError(
            f"kernel '{name}' ({signature.kernel.at(signature.kernel.line)}): a Mac's limit may be "
            f"below group_size={math.prod(group)} where a kernel needs many registers; write "
            f"[[max_total_threads_per_threadgroup({math.prod(group)})]] before it"
        )
    fill = [1] * (3 - len(grid))
    return grid + fill, group + fill


def _sizes(name: str, value: int | Sequence[int] | None) -> list[int] | None:
    if value is None:
        return None
    if isinstance(value, int):
        return [value]
    sizes = list(value)
    if not sizes or not all(isinstance(size, int) for size in sizes):
        raise TypeError(f"{name} must be an int or a sequence of 1 to 3 ints, got {value!r}")
    return sizes
