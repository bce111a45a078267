"""torch, the device, and PyG beside them."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from typing import Any

import torch

from mps_pointops.demo.device import Target
from mps_pointops.doctor.files import find_distribution, find_place
from mps_pointops.doctor.finding import NOTE, OK, PROBLEM, Finding

OLDEST_TORCH = (2, 7)
_MAC_CURE = "use macOS 14 or later and a torch for arm64: pip install --force-reinstall torch"


def release(version: str) -> tuple[int, int]:
    """Major and minor of a version."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def check_torch() -> tuple[list[Finding], dict[str, Any]]:
    """Version of torch, and the variables that change what it does on MPS."""
    version, oldest = torch.__version__, ".".join(map(str, OLDEST_TORCH))
    facts = {
        "version": version,
        "mps_built": torch.backends.mps.is_built(),
        "mps_available": torch.backends.mps.is_available(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("PYTORCH_MPS_", "PYTORCH_ENABLE_MPS", "MPS_POINTOPS_"))
        },
    }
    findings = [
        Finding(
            OK, "torch", "torch", f"torch {version}, Python {facts['python']}, {facts['system']}"
        )
    ]
    if release(version) < OLDEST_TORCH:
        what = f"torch {version} is older than {oldest}"
        findings = [Finding(PROBLEM, "torch", "torch", what, f"pip install 'torch>={oldest}'")]
    if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "0") != "0":
        what = (
            "PYTORCH_ENABLE_MPS_FALLBACK is on: operators that MPS lacks run on the CPU and copy "
            "there and back, without a word after the first"
        )
        findings.append(Finding(NOTE, "torch", "fallback", what, "unset it to see which they are"))
    if os.environ.get("PYTORCH_MPS_FAST_MATH", "0") != "0":
        what = "PYTORCH_MPS_FAST_MATH is on: these kernels keep their bits, torch's own may not"
        findings.append(Finding(NOTE, "torch", "fast math", what))
    return findings, facts


def check_device(device: str, emulated: bool) -> list[Finding]:
    """Whether the device that is asked for is there."""
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        what = "this Python is built for Intel processors: on Apple silicon it has no MPS"
        cure = "install a Python for arm64 and make a new environment with it"
        return [Finding(NOTE if device == "cpu" else PROBLEM, "device", device, what, cure)]
    if device == "cpu":
        gpu = "an Apple GPU is here too" if torch.backends.mps.is_available() else "no Apple GPU"
        what = f"{Target('cpu').describe()}; {gpu}"
        if sys.platform == "darwin" and not torch.backends.mps.is_available():
            return [Finding(PROBLEM, "device", device, what, _MAC_CURE)]
        return [Finding(OK, "device", device, what)]
    if not torch.backends.mps.is_available():
        why = "is not built for MPS" if not torch.backends.mps.is_built() else "finds no Apple GPU"
        cure = "use --device cpu here, or --emulated in a source checkout"
        cure = _MAC_CURE if sys.platform == "darwin" else cure
        return [Finding(PROBLEM, "device", device, f"torch {torch.__version__} {why}", cure)]
    return [Finding(OK, "device", device, Target(device, emulated).describe())]


def check_pyg(path: Sequence[str]) -> tuple[list[Finding], dict[str, Any]]:
    """PyG's point operators come from pyg-lib (2.8 on) or torch_cluster (up to 2.7)."""

    def version(name: str) -> str | None:
        found = find_distribution(name, path)
        return found.version if found else None

    pyg, pyg_lib, plugin = map(version, ("torch-geometric", "pyg-lib", "pyg-lib-mps-plugin"))
    cluster = find_place("torch_cluster", path)
    facts = {"torch_geometric": pyg, "pyg_lib": pyg_lib, "pyg_lib_mps_plugin": plugin}
    findings = []
    if pyg is not None and release(pyg) >= (2, 8) and plugin is None:
        what = f"PyG {pyg} takes its point operators from pyg-lib, which has none for MPS"
        cure = "for the Apple GPU: pip install pyg-lib-mps-plugin"
        findings.append(Finding(NOTE, "pyg", "torch_geometric", what, cure))
    if pyg is not None and release(pyg) < (2, 8) and cluster is None:
        what = f"PyG {pyg} takes its point operators from torch_cluster, which is not installed"
        cure = "pip install torch-cluster-mps"
        findings.append(Finding(NOTE, "pyg", "torch_geometric", what, cure))
    if plugin is not None and pyg_lib is None:
        level = PROBLEM if pyg is not None and release(pyg) >= (2, 8) else NOTE
        major, minor = release(torch.__version__)
        page = f"https://data.pyg.org/whl/torch-{major}.{minor}.0+cpu.html"
        what = f"pyg-lib-mps-plugin {plugin} has nothing to serve: pyg-lib is not installed"
        findings.append(Finding(level, "pyg", "pyg_lib", what, f"pip install pyg-lib -f {page}"))
    if not findings:
        told = [f"{name} {value}" for name, value in facts.items() if value]
        findings = [Finding(OK, "pyg", "torch_geometric", ", ".join(told) or "not installed")]
    return findings, facts
