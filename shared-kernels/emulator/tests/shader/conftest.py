from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mps_emulator import shader
from mps_emulator.shader import options

if sys.platform != "linux":  # elsewhere torch's own compiler runs the kernels
    collect_ignore_glob = ["test_*.py"]

PRELUDE = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of these tests run on CPU tensors; every test starts from the same settings."""
    monkeypatch.setattr(options, "allow_cpu_tensors", True)
    monkeypatch.setattr(options, "seed", 0)
    monkeypatch.setattr(options, "fast_math", False)
    monkeypatch.setattr(options, "checks", True)
    monkeypatch.setattr(options, "metal_version", 310)
    monkeypatch.setattr(options, "time_limit", 60.0)
    monkeypatch.setattr(options, "ended_threads_pass_barriers", False)


@pytest.fixture
def compiled() -> Callable[[str], shader.Library]:
    """Compiles a text after the usual two lines; its first line is line 3."""
    return lambda text: shader.compile_shader(PRELUDE + text)


@pytest.fixture
def values(compiled: Callable[[str], shader.Library]) -> Callable[..., list[Any]]:
    """Runs statements in one thread; they assign to ``o[...]``, the list that comes back."""

    def run(body: str, n: int = 1, kind: str = "float", before: str = "") -> list[Any]:
        dtypes = {"float": torch.float32, "half": torch.float16, "int": torch.int32}
        dtypes |= {"uint": torch.int64, "long": torch.int64, "bool": torch.bool}
        dtypes |= {"bfloat": torch.bfloat16, "short": torch.int16, "uchar": torch.uint8}
        pointee = "long" if kind == "uint" else kind
        text = f"{before}\nkernel void k(device {pointee}* o) {{\n{body}\n}}"
        out = torch.zeros(n, dtype=dtypes[kind])
        compiled(text).k(out, threads=1)
        return out.tolist()

    return run


@pytest.fixture
def refused() -> Callable[..., str]:
    """Calls a kernel that must fail and checks that the message names kernel and line."""

    def call(
        lib: shader.Library, *args: Any, match: str, line: int, kernel: str = "f", **kwargs: Any
    ) -> str:
        with pytest.raises(RuntimeError, match=match) as caught:
            getattr(lib, kernel)(*args, **kwargs)
        message = str(caught.value)
        assert f"kernel '{kernel}'" in message
        assert f"line {line}" in message
        return message

    return call
