"""Gather and group: features at indices; scatter: the sums that go the other way."""

from mps_pointops.ops.gather.gather import gather_points, group_points, scatter_points

__all__ = ["gather_points", "group_points", "scatter_points"]
