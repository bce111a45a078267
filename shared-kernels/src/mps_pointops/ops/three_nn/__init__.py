"""The three nearest neighbours of feature propagation."""

from mps_pointops.ops.three_nn.three_nn import three_nn

__all__ = ["three_nn"]
