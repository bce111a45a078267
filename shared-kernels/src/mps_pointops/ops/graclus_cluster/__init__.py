"""Clusters of a graph: a greedy matching of its edges."""

from mps_pointops.ops.graclus_cluster.graclus_cluster import graclus_cluster

__all__ = ["graclus_cluster"]
