"""Gradient of a ball query that an index answered."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._registry import in_shape
from mps_pointops.ops.ball_query.ball_query import backward, setup_context


class FoundBall(torch.autograd.Function):
    """The result of a ball query with the gradient of the operator."""

    @staticmethod
    def forward(
        query: Tensor,
        points: Tensor,
        distance: Tensor,
        index: Tensor,
        first: Tensor | None,
        clouds: int,
    ) -> tuple[Tensor, Tensor]:
        """Squared distances and indices [M, K], as found."""
        return in_shape(distance, distance.shape), in_shape(index, index.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep what the gradient needs."""
        query, points, _, _, first, clouds = inputs
        setup_context(ctx, (query, points, first, None, clouds), output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients in the queries and the points."""
        return (*backward(ctx, grads[0], None)[:2], None, None, None, None)
