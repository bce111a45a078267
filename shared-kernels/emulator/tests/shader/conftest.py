from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mps_emulator import shader
from mps_emulator.shader import options

PRELUDE = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels of these tests run on CPU tensors; every test starts from the same settings."""
    monkeypatch.setattr(options, "allow_cpu_tensors", True)
    monkeypatch.setattr(options, "seed", 0)
    monkeypatch.setattr(options, "fast_math", False)
    monkeypatch.setattr(options, "checks", True)
    monkeypatch.setattr(options, "metal_version", 310)
    monkeypatch.setattr(options, "time_limit", 60.0)
    yield


@pytest.fixture
def compiled() -> Callable[[str], shader.Library]:
    """Compiles a text after the usual two lines; its first line is line 3."""
    return lambda text: shader.compile_shader(PRELUDE + text)
