"""Cells of a regular grid."""

from mps_pointops.ops.grid_cluster.grid_cluster import grid_cluster

__all__ = ["grid_cluster"]
