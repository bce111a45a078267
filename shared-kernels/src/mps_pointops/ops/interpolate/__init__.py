"""Interpolation of features from three weighted neighbours, and its adjoint."""

from mps_pointops.ops.interpolate.interpolate import three_interpolate, three_scatter

__all__ = ["three_interpolate", "three_scatter"]
