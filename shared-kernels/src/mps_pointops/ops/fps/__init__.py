"""Farthest point sampling."""

from mps_pointops.ops.fps.fps import furthest_point_sample

__all__ = ["furthest_point_sample"]
