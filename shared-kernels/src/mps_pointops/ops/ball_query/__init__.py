"""Ball query: the first K points within a radius, in input order."""

from mps_pointops.ops.ball_query.ball_query import ball_query

__all__ = ["ball_query"]
