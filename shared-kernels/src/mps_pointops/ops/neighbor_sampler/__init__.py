"""Edges to a part of the neighbours of given nodes."""

from mps_pointops.ops.neighbor_sampler.neighbor_sampler import neighbor_sampler

__all__ = ["neighbor_sampler"]
