"""Versions: the API level of the original, and that of this distribution."""

__version__ = "3.0.0"
__mps_version__ = "0.1.0"
