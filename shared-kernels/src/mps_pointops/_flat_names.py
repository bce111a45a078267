"""Names of ragged calls in messages: those that the caller wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """A function and its arguments.

    Attributes:
        op: The function.
        x: Reference points, or the points that are sampled.
        y: Queries.
        batch_x: Cloud of every row of `x`.
        batch_y: Cloud of every row of `y`.
    """

    op: str
    x: str = "x"
    y: str = "y"
    batch_x: str = "batch_x"
    batch_y: str = "batch_y"


# Functions of torch_cluster and pyg-lib with other arguments than those of `flat`.
_OTHERS = {
    "fps": Names("fps", "src"),
    "pyg::fps": Names("pyg::fps", "src"),
    "knn_graph": Names("knn_graph", "x", "x", "batch", "batch"),
    "radius_graph": Names("radius_graph", "x", "x", "batch", "batch"),
}


def names_of(caller: str) -> Names:
    """Names for the function that an operator was called by."""
    return _OTHERS.get(caller) or Names(caller)
