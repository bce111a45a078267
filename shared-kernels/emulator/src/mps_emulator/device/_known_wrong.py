"""Operators that run on a Mac and give wrong results there; test runs refuse them.

The list is of what some supported PyTorch release or macOS gets wrong, because code that has to
work on all of them cannot use it anywhere.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

_SMALL_TYPES = (torch.bool, torch.int8, torch.uint8, torch.float16)
_FLOAT_EXACT_INTEGERS = 2**24


class KnownWrongOnMPSError(RuntimeError):
    """An operator call whose result a Mac is known to get wrong."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One operator call: its arguments by the names of the operator's schema."""

    operator: str
    tensors: Mapping[str, torch.Tensor]
    numbers: Mapping[str, float]
    strings: Mapping[str, str]

    @property
    def input(self) -> torch.Tensor:
        """The first tensor argument."""
        return self.tensors["self"]

    @property
    def written(self) -> torch.Tensor:
        """The tensor that receives the result of an in-place or ``out=`` form."""
        return self.tensors.get("out", self.input)

    @property
    def dim(self) -> int:
        """The dimension that the call works along, not negative."""
        return int(self.numbers.get("dim", -1)) % max(self.input.dim(), 1)

    @property
    def length(self) -> int:
        """The number of elements along that dimension."""
        return self.input.shape[self.dim] if self.input.dim() else 1


@dataclasses.dataclass(frozen=True)
class KnownWrong:
    """An entry of the table.

    Attributes:
        name: What a test allows it by.
        operators: The dispatcher's names of the operators, without ``aten::``.
        applies: Whether a call is one of the wrong ones.
        why: What goes wrong, in one line.
        source: Where it is reported.
    """

    name: str
    operators: tuple[str, ...]
    applies: Callable[[Call], bool]
    why: str
    source: str


def _has_duplicates(call: Call) -> bool:
    if call.length < 2:
        return False
    ordered = call.input.cpu().sort(dim=call.dim).values
    return bool((ordered.narrow(call.dim, 1, call.length - 1)
                 == ordered.narrow(call.dim, 0, call.length - 1)).any())  # fmt: skip


def _is_slice(tensor: torch.Tensor) -> bool:
    return int(tensor.storage_offset()) != 0 or not tensor.is_contiguous()


def _uses_matrix_product(call: Call) -> bool:
    rows = max(call.tensors["x1"].shape[-2], call.tensors["x2"].shape[-2])
    mode = int(call.numbers.get("compute_mode", 0))
    return call.numbers.get("p") == 2.0 and (mode == 1 or (mode == 0 and rows > 25))


def _large_keys(call: Call) -> bool:
    values = call.input
    if values.dtype != torch.int64 or values.numel() == 0 or not call.numbers.get("return_inverse"):
        return False
    return int(values.cpu().abs().max()) > _FLOAT_EXACT_INTEGERS


def _gives_zero(call: Call) -> bool:
    """Along whatever axes the call goes: a list of them does not come with it."""
    values = call.input
    if values.dtype != torch.int64 or values.numel() == 0:
        return False
    values = values.cpu()
    name = call.operator.rpartition("::")[2].split(".")[0]
    for axes in ([axis] for axis in range(values.dim())):
        if name != "amin" and name != "min" and bool((values.amax(axes) < 0).any()):
            return True
        if name != "amax" and name != "max" and bool((values.amin(axes) > 0).any()):
            return True
    return False


def _divides_integers(call: Call) -> bool:
    # numbers arrive as such, or as tensors without axes
    given = [torch.as_tensor(t).cpu() for name, t in call.tensors.items() if name != "out"]
    if any(tensor.dtype.is_floating_point for tensor in given):
        return False
    rounded = call.strings.get("rounding_mode") in ("floor", "trunc")
    if call.operator.removeprefix("aten::").startswith("div") and not rounded:
        return False
    wide = [tensor.to(torch.int64) for tensor in given if tensor.numel()]
    most = max((max(int(t.max()), -int(t.min())) for t in wide), default=0)
    return most > _FLOAT_EXACT_INTEGERS


_SORTS = ("sort", "sort.values", "sort.stable", "sort.values_stable",
          "argsort", "argsort.stable", "argsort.stable_out", "msort", "msort.out")  # fmt: skip
_SCATTERS = ("scatter_", "scatter.out", "scatter_add_", "scatter_add.out",
             "scatter_.src", "scatter.src_out", "scatter_.value", "scatter.value_out",
             "scatter_.reduce", "scatter.reduce_out",
             "scatter_.value_reduce", "scatter.value_reduce_out",
             "scatter_reduce_.two", "scatter_reduce.two_out")  # fmt: skip
_UNIQUES = ("_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive")

_EXTREMES = ("amin", "amin.out", "amax", "amax.out", "aminmax", "aminmax.out",
             "max", "max.unary_out", "min", "min.unary_out")  # fmt: skip
_DIVISIONS = ("floor_divide", "floor_divide.out", "floor_divide_.Tensor", "div.Tensor_mode",
              "div.out_mode", "div_.Tensor_mode", "remainder.Tensor", "remainder.Tensor_out",
              "remainder_.Tensor", "fmod.Tensor", "fmod.Tensor_out", "fmod_.Tensor")  # fmt: skip

TABLE: tuple[KnownWrong, ...] = (
    KnownWrong(
        "sort.int64", _SORTS,
        lambda call: call.input.dtype == torch.int64 and call.length > 256,
        "an int64 sort is garbage after element 256 on macOS 15.4 and later",
        "pytorch#155560",
    ),
    KnownWrong(
        "sort.strided", _SORTS,
        lambda call: not call.input.is_contiguous(),
        "sorting ignores the strides of a non-contiguous tensor; call .contiguous() first",
        "pytorch#175187",
    ),
    KnownWrong(
        "sort.long", _SORTS,
        lambda call: call.dim == 0 and call.length > 2**22,
        "sorting along dimension 0 is wrong above 2**22 rows",
        "pytorch#183885",
    ),
    KnownWrong(
        "sort.small_types", _SORTS,
        lambda call: call.input.dtype in _SMALL_TYPES and _has_duplicates(call),
        "bool, int8, uint8 and float16 sorts order the indices of equal values in another way",
        "torch/testing/_internal/common_mps.py",
    ),
    KnownWrong(
        "topk.integers", ("topk", "topk.values"),
        lambda call: not call.input.dtype.is_floating_point and _has_duplicates(call),
        "topk of integers with equal values returns duplicate indices up to torch 2.12",
        "torch/testing/_internal/common_mps.py",
    ),
    KnownWrong(
        "topk.dimensions", ("topk", "topk.values"),
        lambda call: call.input.dim() >= 5,
        "topk of a tensor with five or more dimensions aborts the process",
        "pytorch#154890",
    ),
    KnownWrong(
        "unique.inverse", _UNIQUES,
        _large_keys,
        "the inverse of int64 keys above 2**24 is wrong",
        "pytorch#195595",
    ),
    KnownWrong(
        "unique.counts", _UNIQUES,
        lambda call: bool(call.numbers.get("return_counts")) and call.input.numel() > 2**16,
        "counts of about half a million values and more are wrong, those of long runs take seconds",
        "pytorch#111173",
    ),
    KnownWrong(
        "scatter.slice", _SCATTERS,
        lambda call: _is_slice(call.written),
        "scattering into a slice of another tensor writes nothing; scatter into a fresh tensor",
        "pytorch#163327",
    ),
    KnownWrong(
        "scatter_reduce.integers", ("scatter_reduce_.two", "scatter_reduce.two_out"),
        lambda call: not call.input.dtype.is_floating_point
        and call.strings.get("reduce") in ("amax", "amin", "prod"),
        "integer amax and amin are missing up to torch 2.12, int64 prod to 2.14",
        "torch/testing/_internal/common_mps.py",
    ),
    KnownWrong(
        "index_add.int64", ("index_add_", "index_add.out"),
        lambda call: call.input.dtype == torch.int64,
        "int64 index_add is missing or wrong up to torch 2.8",
        "pytorch#161446",
    ),
    KnownWrong(
        "index_put.bool", ("_index_put_impl_",),
        lambda call: call.input.dtype == torch.bool
        and bool(call.numbers.get("accumulate"))
        and int(call.input.storage_offset()) % 4 != 0,
        "accumulating bool into a view that is not aligned to 4 bytes is wrong",
        "pytorch#195074",
    ),
    KnownWrong(
        "amax.int64", _EXTREMES,
        _gives_zero,
        "torch 2.13 gives 0 for the largest of negative int64 and the smallest of positive ones",
        "pytorch#191104",
    ),
    KnownWrong(
        "division.integers", _DIVISIONS,
        _divides_integers,
        "torch 2.7 divides integers as float32, which is wrong above 2**24",
        "pytorch#154280",
    ),
    KnownWrong(
        "cdist.matmul", ("_cdist_forward", "_euclidean_dist"),
        lambda call: call.operator.endswith("_euclidean_dist") or _uses_matrix_product(call),
        "above 25 rows the distances come from a matrix product: errors to 5e-4, wrong neighbours; "
        'pass compute_mode="donot_use_mm_for_euclid_dist"',
        "measured on Apple silicon",
    ),
)  # fmt: skip

NAMES = tuple(entry.name for entry in TABLE)

_allowed: Counter[str] = Counter()  # for all threads: backward runs in threads of its own
_library: torch.library.Library | None = None


@contextmanager
def allow(*names: str) -> Iterator[None]:
    """Allows operators that a test run refuses because a Mac is known to get them wrong.

    Args:
        *names: Names of entries, for example ``"sort.int64"``; the refusal says which.
    """
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise ValueError(
            f"allow() expects names of operators known to be wrong on MPS, got {unknown}; "
            f"the names are {', '.join(NAMES)}"
        )
    _allowed.update(names)
    try:
        yield
    finally:
        _allowed.subtract(names)


def inspect(
    operator: str,
    tensor_names: list[str],
    tensors: list[torch.Tensor],
    number_names: list[str],
    numbers: list[float],
    string_names: list[str],
    strings: list[str],
) -> None:
    """Judges one call for the device; raises where a Mac's result is known to be wrong.

    Args:
        operator: The dispatcher's name of the operator.
        tensor_names: Names of the tensor arguments.
        tensors: The tensor arguments.
        number_names: Names of the int, float and bool arguments.
        numbers: The int, float and bool arguments.
        string_names: Names of the string arguments.
        strings: The string arguments.
    """
    call = Call(
        operator,
        dict(zip(tensor_names, tensors, strict=True)),
        dict(zip(number_names, numbers, strict=True)),
        dict(zip(string_names, strings, strict=True)),
    )
    name = operator.removeprefix("aten::")
    for entry in TABLE:
        if name in entry.operators and not _allowed[entry.name] and entry.applies(call):
            raise KnownWrongOnMPSError(
                f"{operator} is refused in test runs: {entry.why} ({entry.source}). If the wrong "
                f'result does not matter here, allow it: `with mps_emulator.allow("{entry.name}"):`'
                f' or `@pytest.mark.allow_wrong_on_mps("{entry.name}")`.'
            )


def refuse_from_now_on() -> None:
    """Lets the device ask this table about every call of an operator in it."""
    global _library
    if _library is None:
        _library = torch.library.Library("mps_emulator", "IMPL")  # type: ignore[no-untyped-call]
        _library.impl(  # type: ignore[no-untyped-call]
            "inspect", inspect, "CompositeExplicitAutograd"
        )
    watched = sorted({f"aten::{name}" for entry in TABLE for name in entry.operators})
    torch.ops.mps_emulator.set_table("watched", watched)
