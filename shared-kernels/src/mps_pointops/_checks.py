"""Argument checks of the public functions: one form of check, one form of message.

Every message names the operator and the argument, what was expected, what came and, where it is
not obvious, what to do. Nothing here reads a tensor's values back from the device, with one
exception: a scalar argument that is itself a tensor.
"""

from __future__ import annotations

import math
import operator
import os
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from mps_pointops._integers import around_zero

FLOAT_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Types of the devices that operators run on. A tool that runs the Metal kernels on another device
# adds its type.
DEVICES = {"cpu", "mps"}
_FLOATS = "float32, float16 or bfloat16"
# 32-bit positions inside the kernels
MAX_POINTS = 2**31 - 1


def _message(op: str, name: str, expected: str, got: str, hint: str) -> str:
    text = f"{op}: {name} must be {expected}, got {got}"
    return f"{text}; {hint}" if hint else text


def fail_type(op: str, name: str, expected: str, got: str, hint: str = "") -> NoReturn:
    """Raise TypeError: the wrong kind of object or dtype."""
    raise TypeError(_message(op, name, expected, got, hint))


def fail_value(op: str, name: str, expected: str, got: str, hint: str = "") -> NoReturn:
    """Raise ValueError: the right kind of object with a value that has no meaning here."""
    raise ValueError(_message(op, name, expected, got, hint))


def as_int(op: str, name: str, value: Any, low: int = 0) -> int:
    """An integer of at least `low`: Python, NumPy, a 0-d integer tensor; never bool or float."""
    if type(value) is not int and not isinstance(value, torch.SymInt):
        if isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool):
            fail_type(op, name, "an integer", "a bool")
        try:
            value = operator.index(value)
        except TypeError:
            fail_type(op, name, "an integer", type(value).__name__)
    if value < low:
        fail_value(op, name, f"at least {low}", str(value))
    if value > MAX_POINTS:
        fail_value(op, name, f"at most {MAX_POINTS}", str(value))
    return value  # type: ignore[no-any-return]


def as_number(op: str, name: str, value: Any) -> float:
    """Any number, NaN too: Python, NumPy or a one-element tensor."""
    if isinstance(value, (bool, str, bytes)):
        fail_type(op, name, "a number", type(value).__name__)
    if isinstance(value, Tensor) and (
        value.numel() != 1 or value.is_complex() or value.dtype == torch.bool
    ):
        got = f"a tensor of {value.dtype} and shape {list(value.shape)}"
        fail_type(op, name, "a number", got)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        fail_type(op, name, "a number", type(value).__name__)


def as_float(op: str, name: str, value: Any, *, infinite: bool = False) -> float:
    """A number of at least zero.

    `infinite`: infinity is such a number too.
    """
    number = as_number(op, name, value)
    # NaN is neither; comparisons hold for symbolic numbers too
    if not (0 <= number <= math.inf if infinite else 0 <= number < math.inf):
        fail_value(op, name, "at least 0" if infinite else "finite and not negative", str(number))
    return number


def check_kinds(
    op: str,
    tensors: dict[str, Any],
    optional: dict[str, Any] | None = None,
    integers: dict[str, Any] | None = None,
    optional_integers: dict[str, Any] | None = None,
    numbers: dict[str, Any] | None = None,
) -> None:
    """Arguments, by name, of the kinds that an operator of torch takes, which names its own.

    What they hold is checked by the operator.
    """
    for name, value in (*tensors.items(), *(optional or {}).items()):
        if isinstance(value, Tensor):
            if value.layout is not torch.strided:
                fail_type(op, name, "a dense (strided) tensor", str(value.layout))
        elif value is not None or name in tensors:
            fail_type(op, name, "a torch.Tensor", type(value).__name__)
    for name, value in (*(integers or {}).items(), *(optional_integers or {}).items()):
        if type(value) is int or (value is None and name not in (integers or {})):
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__") or _is_float(value):
            fail_type(op, name, "an integer", type(value).__name__)
    for name, value in (numbers or {}).items():
        if type(value) is float or type(value) is int:
            continue
        if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
            fail_type(op, name, "a number", type(value).__name__)


def _is_float(value: Any) -> bool:
    """Tensors have `__index__` whatever they hold."""
    return isinstance(value, Tensor) and (value.dtype.is_floating_point or value.numel() != 1)


def check_points(
    op: str, name: str, points: Any, rank: int, dim: int | None = None, *, double: bool = False
) -> Tensor:
    """A float tensor of coordinates (..., D) on the CPU or on MPS, with `rank` axes.

    `double`: float64 is accepted too; MPS has none.
    """
    if not isinstance(points, Tensor):
        fail_type(op, name, "a torch.Tensor", type(points).__name__)
    shape = points.shape
    fits = len(shape) == rank and (dim is None or shape[-1] == dim)
    if not fits or shape[-1] < 1:
        wanted = {2: "(N, {})", 3: "(B, N, {})"}[rank].format(dim if dim else "D")
        least = " with D >= 1" if fits else ""
        fail_value(op, name, f"of shape {wanted}{least}", f"shape {list(shape)}")
    if points.dtype not in FLOAT_DTYPES and not (double and points.dtype == torch.float64):
        hint = "convert it with .float()" if points.dtype != torch.bool else ""
        known = "float64, float32, float16 or bfloat16" if double else _FLOATS
        fail_type(op, name, known, str(points.dtype), hint)
    if points.layout != torch.strided:
        fail_type(op, name, "a dense (strided) tensor", str(points.layout))
    check_device(op, name, points)
    if points.numel() // shape[-1] > MAX_POINTS:
        fail_value(op, name, f"at most {MAX_POINTS} points in all", f"shape {list(shape)}")
    return points


def check_device(op: str, name: str, value: Tensor) -> None:
    """On the CPU, on MPS, or nowhere."""
    if (kind := value.device.type) not in DEVICES and kind != "meta":
        fail_value(op, name, "on device cpu or mps", f"device {value.device}")


def check_same_device(op: str, name: str, other: Tensor, first_name: str, first: Tensor) -> None:
    """`other` must live where `first` lives."""
    if other.device != first.device:
        fail_value(
            op,
            name,
            f"on the device of {first_name} ({first.device})",
            f"device {other.device}",
            f"move one of them with .to({str(first.device)!r})",
        )


def check_same_size(op: str, name: str, what: str, got: int, first_name: str, wanted: int) -> None:
    """One axis of two arguments must agree."""
    if got != wanted:
        fail_value(op, name, f"of the {what} of {first_name} ({wanted})", str(got))


def check_pair(
    op: str,
    first_name: str,
    first: Any,
    name: str,
    other: Any,
    rank: int,
    dim: int | None = None,
    *,
    double: bool = False,
) -> tuple[Tensor, Tensor]:
    """Two sets of points that are searched together: same device, batch size and dimension."""
    first = check_points(op, first_name, first, rank, dim, double=double)
    other = check_points(op, name, other, rank, dim, double=double)
    check_same_device(op, name, other, first_name, first)
    if rank == 3:
        check_same_size(op, name, "batch size", other.shape[0], first_name, first.shape[0])
    check_same_size(op, name, "dimension D", other.shape[-1], first_name, first.shape[-1])
    return first, other


def check_batch(op: str, name: str, batch: Any, points: Tensor, points_name: str) -> Tensor:
    """A vector of cloud numbers, one a point, beside its points. Order is checked by the caller.

    Returns:
        The vector, in int64 or int32; narrower integers are widened.
    """
    if not isinstance(batch, Tensor):
        fail_type(op, name, "a torch.Tensor", type(batch).__name__)
    numbers: Tensor = batch
    if numbers.dtype in (torch.int16, torch.int8, torch.uint8):
        numbers = numbers.to(torch.int64)
    elif numbers.dtype not in (torch.int64, torch.int32):
        hint = "convert it with .long()" if numbers.dtype.is_floating_point else ""
        fail_type(op, name, "int64 or int32", str(numbers.dtype), hint)
    if numbers.dim() != 1 or numbers.shape[0] != points.shape[0]:
        wanted = f"of shape [{points.shape[0]}], one cloud number a row of {points_name}"
        fail_value(op, name, wanted, f"shape {list(numbers.shape)}")
    check_same_device(op, name, numbers, points_name, points)
    return numbers


def check_index(
    op: str,
    name: str,
    index: Any,
    rank: int,
    features: Tensor,
    size: int,
    features_name: str = "the features",
) -> Tensor:
    """Indices (B, ...) into an axis of `size`, beside features of the same batch.

    On the CPU every index is looked at. On MPS that would cost a read-back: there a value read
    out of range is NaN, nothing is written out of range, and MPS_POINTOPS_CHECK_INDICES=1 turns
    the check on.
    """
    if not isinstance(index, Tensor):
        fail_type(op, name, "a torch.Tensor", type(index).__name__)
    if index.dtype not in (torch.int32, torch.int64):
        fail_type(op, name, "int32 or int64", str(index.dtype))
    if index.dim() != rank:
        fail_value(op, name, f"a tensor of {rank} axes", f"shape {list(index.shape)}")
    check_same_device(op, name, index, features_name, features)
    check_same_size(op, name, "batch size", index.shape[0], features_name, features.shape[0])
    if index.numel() and may_look_at(index):
        low, high = torch.stack(around_zero(index.detach())).tolist()
        if low < 0 or high >= size:
            got = low if low < 0 else high
            raise IndexError(f"{op}: {name} must be from 0 to {size - 1}, got {got}")
    return index


def check_features(op: str, name: str, features: Any, rank: int = 3) -> Tensor:
    """Features (B, C, N) of any float dtype that the device has, without a tangent."""
    if not isinstance(features, Tensor):
        fail_type(op, name, "a torch.Tensor", type(features).__name__)
    if not features.is_floating_point():
        fail_type(op, name, "a float tensor", str(features.dtype))
    if features.dim() != rank:
        fail_value(op, name, f"a tensor of {rank} axes", f"shape {list(features.shape)}")
    check_device(op, name, features)
    if features.numel() > MAX_POINTS:
        fail_value(op, name, f"at most {MAX_POINTS} values", f"shape {list(features.shape)}")
    refuse_forward_mode(op, features)
    return features


def may_look_at(values: Tensor) -> bool:
    """Whether what a tensor holds is to be checked: on the CPU, on MPS if that is switched on.

    There is nothing to look at while a program is recorded: compiled, exported, on fake tensors.
    """
    kind = values.device.type
    wanted = kind == "cpu" or os.environ.get("MPS_POINTOPS_CHECK_INDICES") == "1"
    recorded = torch.compiler.is_compiling() or kind == "meta" or hasattr(values, "fake_mode")
    return wanted and not recorded


def refuse_forward_mode(op: str, *points: Tensor) -> None:
    """Tangents would be dropped without a word: torch gives registered operators no rule."""
    if torch.compiler.is_compiling():
        return
    duals = [unpack_dual(p) for p in points]  # type: ignore[no-untyped-call]
    if any(dual.tangent is not None for dual in duals):
        raise NotImplementedError(
            f"{op}: there is no forward-mode derivative; use reverse mode (backward, "
            "torch.autograd.grad, torch.autograd.functional.vjp)"
        )


def plain(points: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Contiguous values of that dtype, cut from the graph: the tensor itself where it is that.

    Each step costs host time, so none is taken for nothing.
    """
    if points.requires_grad:
        points = points.detach()
    if points.dtype != dtype:
        points = points.to(dtype)
    return points if points.is_contiguous() else points.contiguous()


def as_float32(points: Tensor) -> Tensor:
    """Contiguous float32 coordinates, cut from the graph; half precision is widened exactly."""
    if torch.compiler.is_compiling():  # where no step costs time, and a question a guard
        return points.detach().to(torch.float32).contiguous()
    return plain(points)


def as_float32_or_64(*points: Tensor) -> tuple[Tensor, ...]:
    """As `as_float32`, but all in float64 if one of them is: the core operators search in it."""
    double = any(p.dtype == torch.float64 for p in points)
    dtype = torch.float64 if double else torch.float32
    return tuple(plain(p, dtype) for p in points)
