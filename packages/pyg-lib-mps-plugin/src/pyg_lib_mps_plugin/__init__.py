"""MPS kernels for the operators of pyg-lib."""

__version__ = "0.1.0"


def _autoload() -> None:
    """What PyTorch calls when it is imported."""
