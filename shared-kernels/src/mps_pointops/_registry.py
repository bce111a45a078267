"""Registration of the operators in the `torch.ops.mps_pointops` namespace.

Kernels are plain functions per device (`Library.impl`), which costs less per call than the
`custom_op` decorator. They run with autograd on, so public functions hand them detached tensors
unless the operator has a gradient of its own. Autocast has no rule here on purpose: operators take
half precision and widen it themselves, so nothing is cast twice.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch

NAMESPACE = "mps_pointops"
_Function = TypeVar("_Function", bound=Callable[..., Any])
# torch leaves these untyped; the object must stay alive
_library: Any = cast(Any, torch.library.Library)(NAMESPACE, "DEF")


def opaque(function: _Function) -> _Function:
    """A function that `torch.compile` does not look into, such as an operator's kernel in Python.

    Where compiled code breaks off, for a result of unknown size say, it calls operators as they
    are; but it would still compile what it sees running inside of them, for minutes.
    """
    hidden: Callable[..., Any] | None = None

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        nonlocal hidden
        # importing the compiler takes seconds: that is left to who uses it
        if "torch._dynamo" not in sys.modules:
            return function(*arguments, **named)
        if hidden is None:
            hidden = cast(Any, torch.compiler.disable)(function)
        return hidden(*arguments, **named)

    return cast(_Function, run)


def register(
    schema: str,
    *,
    cpu: Callable[..., Any],
    mps: Callable[..., Any],
    fake: Callable[..., Any],
    tags: Sequence[torch.Tag] = (),
) -> Any:
    """Define an operator with its kernels; returns its overload, which is what to call.

    An operator that draws random numbers has the tag `nondeterministic_seeded`: two equal calls are
    two draws, also in compiled code.
    """
    name = schema.partition("(")[0]
    _library.define(schema, tags=tuple(tags))
    _library.impl(name, opaque(cpu), "CPU")
    _library.impl(name, opaque(mps), "MPS")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def register_gradient(
    name: str, backward: Callable[..., Any], setup_context: Callable[..., Any]
) -> None:
    """Give an operator its gradient."""
    torch.library.register_autograd(
        f"{NAMESPACE}::{name}", backward, setup_context=setup_context, lib=_library
    )


def in_shape(values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The values in that shape, for a Function to return; nothing else may hold them.

    A view that a Function returns cannot be written to where it has a gradient, and code for the
    originals does that (`grouped -= centres`).
    """
    return cast(torch.Tensor, torch.ops.aten._unsafe_view.default(values, shape))
