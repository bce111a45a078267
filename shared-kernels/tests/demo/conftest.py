from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cloud() -> NDArray[np.float32]:
    """A bumpy sphere."""
    rng = np.random.default_rng(3)
    direction = rng.standard_normal((400, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return (direction * rng.uniform(0.9, 1.1, (400, 1))).astype(np.float32)


@pytest.fixture
def cloud_file(tmp_path: Path, cloud: NDArray[np.float32]) -> Path:
    path = tmp_path / "cloud.npy"
    np.save(path, cloud)
    return path


@pytest.fixture
def run_demo() -> Run:
    """The command line in a process of its own."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mps_pointops", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    return run
