"""k nearest neighbours."""

from mps_pointops.ops.knn.knn import knn

__all__ = ["knn"]
