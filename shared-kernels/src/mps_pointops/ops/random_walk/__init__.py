"""Random walks over a graph."""

from mps_pointops.ops.random_walk.random_walk import random_walk

__all__ = ["random_walk"]
