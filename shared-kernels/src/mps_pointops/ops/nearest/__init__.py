"""The nearest point of the same cloud."""

from mps_pointops.ops.nearest.nearest import nearest

__all__ = ["nearest"]
