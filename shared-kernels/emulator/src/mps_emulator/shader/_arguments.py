"""Binds Python arguments to a kernel's buffers, as torch does, and checks what torch does not."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import options
from ._abi import BOOL, FLOAT, OTHER, POINTER, REFERENCE
from ._pipeline import Pipeline, Slot

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
    """

    def __init__(self, address: int, start: int, size: int, keep: object, shown: str) -> None:
        self.address, self.start, self.size = address, start, size
        self.keep, self.shown = keep, shown


def bind(
    pipeline: Pipeline, args: Sequence[Any], arg_casts: str | Mapping[int, str] | None
) -> list[Binding]:
    """Returns one binding per argument, in the order of the arguments.

    Args:
        pipeline: The kernel.
        args: Positional arguments of the call; argument i is buffer i.
        arg_casts: Types that scalars are sent as.
    """
    slots = {slot.index: slot for slot in pipeline.slots if slot is not None}
    where = f"kernel '{pipeline.kernel.name}' ({pipeline.kernel.at(pipeline.kernel.line)})"
    converted = [_convert(where, i, arg, _cast(arg_casts, i)) for i, arg in enumerate(args)]
    if len(args) != len(slots) or set(slots) != set(range(len(args))):
        names = ", ".join(f"{i}: {slots[i].parameter.name}" for i in sorted(slots))
        raise RuntimeError(
            f"{where} takes {len(slots)} buffer arguments ({names}), got {len(args)}; on a Mac "
            "a missing one silently keeps what an earlier kernel bound"
        )
    for i, (arg, binding) in enumerate(zip(args, converted, strict=True)):
        _check(pipeline, slots[i], arg, binding, _cast(arg_casts, i))
    return converted


def _cast(arg_casts: str | Mapping[int, str] | None, i: int) -> str | None:
    name = arg_casts if arg_casts is None or isinstance(arg_casts, str) else arg_casts.get(i)
    if name is not None and name not in _CASTS:
        raise RuntimeError(
            f"Unsupported cast type {name!r} for argument {i}; known are {', '.join(_CASTS)}"
        )
    return name


def _convert(where: str, i: int, arg: Any, cast: str | None) -> Binding:
    if isinstance(arg, torch.Tensor):
        return _tensor(where, i, arg)
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
    return Binding(address, address, len(data), room, shown)


def _tensor(where: str, i: int, tensor: torch.Tensor) -> Binding:
    shown = f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"
    fake = isinstance(tensor, FakeTensor)
    if (
        tensor.device.type == "cpu"
        and not fake
        and not (options.allow_cpu_tensors and tensor.dim())
    ):
        if tensor.dim() > 0:
            raise RuntimeError("Passed CPU tensor to MPS op")
        value = tensor.detach().to(torch.float32) if tensor.dtype is torch.float64 else tensor
        data = value.detach().reshape(1).contiguous().view(torch.uint8).numpy().tobytes()
        return _bytes(data, f"0-dim CPU {shown}")
    if tensor.device.type not in ("mps", "cpu"):
        raise RuntimeError(f"{where}: argument {i} is on device '{tensor.device}', expected 'mps'")
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


def _check(pipeline: Pipeline, slot: Slot, arg: Any, binding: Binding, cast: str | None) -> None:
    """Refuses an argument whose bytes do not fit the parameter's type."""
    kind, name = slot.type, slot.parameter.name
    kernel = pipeline.kernel
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
