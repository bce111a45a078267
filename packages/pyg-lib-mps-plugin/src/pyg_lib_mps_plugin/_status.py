"""What is active and what is missing, for people."""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.util import find_spec

import torch

from pyg_lib_mps_plugin import _registration

# pyg-lib -> first and last minor release of torch 2 that it has a macOS build for
PYG_LIB = {"0.6": (8, 11), "0.7": (9, 12), "0.8": (10, 13)}


def pyg_lib_is_there() -> bool:
    """Whether pyg-lib can be imported."""
    return "pyg_lib" in sys.modules or find_spec("pyg_lib") is not None


def torch_release() -> tuple[int, int]:
    """Major and minor of the installed torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def missing_pyg_lib() -> str:
    """The one message where pyg-lib is not installed."""
    major, minor = torch_release()
    known = [name for name, (low, high) in PYG_LIB.items() if major == 2 and low <= minor <= high]
    table = ", ".join(f"{name} for torch 2.{a} to 2.{b}" for name, (a, b) in PYG_LIB.items())
    fitting = (
        f"for torch {major}.{minor}: pyg-lib {known[-1]}"
        if known
        else f"none of these is for torch {major}.{minor}: look whether a newer one is, or use "
        f"torch 2.{max(high for _, high in PYG_LIB.values())}"
    )
    return (
        "pyg-lib-mps-plugin: pyg-lib is not installed, and PyG calls these kernels through it. It "
        "is not on the package index; install the build for your torch with\n"
        f"  pip install pyg-lib -f https://data.pyg.org/whl/torch-{major}.{minor}.0+cpu.html\n"
        f"macOS builds known: {table}; {fitting}."
    )


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def report(failure: Exception | None) -> str:
    """The text of `pyg_lib_mps_plugin.check`."""
    names = _registration.registered()
    lines = [
        f"pyg-lib-mps-plugin {_version('pyg-lib-mps-plugin')}, "
        f"mps-pointops {_version('mps-pointops')}, torch {torch.__version__}, "
        f"pyg-lib {_version('pyg-lib')}, torch-geometric {_version('torch-geometric')}",
        f"mps device: {'available' if torch.backends.mps.is_available() else 'not available'}",
        f"kernels registered: {len(names)}" + (f" ({', '.join(names)})" if names else ""),
    ]
    if failure is not None:
        lines.append(f"registration at `import torch` failed: {failure!r}")
    elif not names:
        lines.append("call pyg_lib_mps_plugin.register(), or unset TORCH_DEVICE_BACKEND_AUTOLOAD")
    if not pyg_lib_is_there():
        lines.append(missing_pyg_lib())
    return "\n".join(lines)
