from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mps_emulator
from mps_emulator.__main__ import main
from mps_emulator._cache import cache_dir, new_file
from mps_emulator.device import _build

pytestmark = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="this machine has a real MPS device"
)

SCRIPT = """\
import sys
import torch
from helper import VALUE
print(sys.argv[1:], __name__, VALUE, torch.ones(2, device="mps").sum().item())
if __name__ == "__main__":
    sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("VALUE = 'beside the script'\n")
    return tmp_path


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_install_again_is_harmless() -> None:
    assert mps_emulator.install() is True
    assert mps_emulator.is_installed()


def test_importing_is_not_installing(tmp_path: Path) -> None:
    done = run(
        "-c",
        "import sys, mps_emulator; print('torch' in sys.modules, mps_emulator.is_installed())",
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["False", "False"]


def test_install_after_torch_was_asked(tmp_path: Path) -> None:
    code = """
import torch
print(torch.backends.mps.is_available(), torch.accelerator.is_available())
x = torch.ones(2, requires_grad=True)
x.sum().backward()
import mps_emulator
print(mps_emulator.install(), torch.backends.mps.is_available(), torch.accelerator.is_available())
y = x.detach().to("mps").requires_grad_()
(y * 3).sum().backward()
print(y.grad.tolist())
"""
    done = run("-c", code, cwd=tmp_path)
    assert done.stdout.splitlines() == ["False False", "True True True", "[3.0, 3.0]"], done.stderr


def test_a_real_device_is_left_alone(tmp_path: Path) -> None:
    code = """
import torch
torch._C._mps_is_available = lambda: True
import mps_emulator
print(mps_emulator.install(), mps_emulator.is_installed(), hasattr(torch.ops.mps_emulator, "x"))
with mps_emulator.allow("sort.int64"):
    print("allowed")
try:
    with mps_emulator.count_readbacks():
        pass
except RuntimeError as error:
    print(error)
"""
    done = run("-c", code, cwd=tmp_path)
    first, second, third = done.stdout.splitlines()
    assert first == "False False False"
    assert second == "allowed"
    assert "count_readbacks() needs the emulated device" in third


def test_compile_shader_is_the_executor() -> None:
    library = torch.mps.compile_shader(
        "kernel void fill(device float* out, uint i [[thread_position_in_grid]]) { out[i] = i; }"
    )
    x = torch.empty(4, device="mps")
    library.fill(x[1:])
    assert x[1:].tolist() == [0, 1, 2]
    assert x[:1].view(torch.uint8).tolist() == [0xA5] * 4


def test_script(folder: Path) -> None:
    done = run(
        "-m", "mps_emulator", str(folder / "script.py"), "-m", "--strict", "3", cwd=Path("/")
    )
    assert done.stdout == "['-m', '--strict', '3'] __main__ beside the script 2.0\n", done.stderr
    assert done.returncode == 7


def test_module(folder: Path) -> None:
    done = run("-m", "mps_emulator", "-m", "script", "-h", cwd=folder)
    assert done.stdout == "['-h'] __main__ beside the script 2.0\n", done.stderr
    assert done.returncode == 7


def test_script_that_fails(folder: Path) -> None:
    (folder / "fails.py").write_text("import torch\ntorch.ones(2, device='mps').double()\n")
    done = run("-m", "mps_emulator", "fails.py", cwd=folder)
    assert done.returncode == 1
    assert 'fails.py", line 2, in <module>' in done.stderr
    assert "TypeError: Cannot convert a MPS Tensor to float64" in done.stderr


def test_strict_script(folder: Path) -> None:
    (folder / "sorts.py").write_text("import torch\ntorch.arange(300, device='mps').sort()\n")
    done = run("-m", "mps_emulator", "--strict", "sorts.py", cwd=folder)
    assert done.returncode == 1
    assert "KnownWrongOnMPSError" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["absent.py"], ["-m"]])
def test_wrong_command_lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: python -m mps_emulator" in capsys.readouterr().err


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-c++ -O0")
    with pytest.raises(
        _build.BuildError, match=r"CXX names 'no-such-c\+\+ -O0', which was not found"
    ):
        _build.extension()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(_build.BuildError, match=r"g\+\+ was not found.*apt-get install g\+\+"):
        _build.extension()


def test_failing_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "broken-c++"
    compiler.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo broken 1; exit 0; fi\n'
        "echo 'some.h:3: error: no such luck' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("MPS_EMULATOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(_build.BuildError) as error:
        _build.extension()
    text = str(error.value)
    assert text.startswith(f"could not compile alias.cpp against torch {torch.__version__}")
    assert "exit code 1" in text
    assert "some.h:3: error: no such luck" in text
    assert "The whole command was: " in text
    assert not list((tmp_path / "cache/device").glob("*.so"))


def test_extension_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(compiler: list[str], target: Path) -> None:
        raise AssertionError(f"built again: {target}")

    monkeypatch.setattr(_build, "_build", build)
    assert _build.extension().exists()


def test_extension_is_built_anew_for_another_compiler_or_source() -> None:
    assert _build._key("g++ 12") == _build._key("g++ 12")
    assert _build._key("g++ 12") != _build._key("g++ 13")


def plugin(folder: Path, test: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return run(
        "-m", "pytest", "-p", "mps_emulator.pytest_plugin", "test_it.py", cwd=folder, **environment
    )


def test_plugin_header_and_strictness(tmp_path: Path) -> None:
    done = plugin(
        tmp_path,
        "import pytest, torch\n"
        "def sort(): torch.arange(300, device='mps').sort()\n"
        "def test_refused():\n    with pytest.raises(RuntimeError, match='sort.int64'): sort()\n"
        "@pytest.mark.allow_wrong_on_mps('sort.int64')\ndef test_allowed(): sort()\n",
        MPS_EMULATOR_SEED="3",
        MPS_EMULATOR_OPERATORS="2.7.0",
        PYTORCH_MPS_FAST_MATH="1",
        MPS_EMULATOR_METAL_VERSION="320",
    )
    assert done.returncode == 0, done.stdout
    assert (
        f"mps: emulated (torch {torch.__version__}, fast math, schedule seed 3, Metal 3.2, "
        "operators: 2.7.0)" in done.stdout
    )


def test_plugin_refuses_unknown_names(tmp_path: Path) -> None:
    done = plugin(
        tmp_path,
        "import pytest\n@pytest.mark.allow_wrong_on_mps('sorting')\ndef test_it(): pass\n",
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "expects names of operators known to be wrong on MPS, got 'sorting'" in done.stderr


def test_plugin_fails_the_test_that_damaged_a_buffer(tmp_path: Path) -> None:
    done = plugin(
        tmp_path,
        "import ctypes, torch\n"
        "def test_it():\n"
        "    x = torch.zeros(3, device='mps')\n"
        "    ctypes.c_ubyte.from_address(x.data_ptr() + 12).value = 1\n",
    )
    assert done.returncode == 1
    assert "a kernel wrote outside a device buffer of 12 bytes (behind its end)" in done.stdout


def test_plugin_without_a_compiler_runs_and_fails(tmp_path: Path) -> None:
    done = plugin(tmp_path, "def test_it(): pass\n", CXX="no-such-c++")
    assert "mps: NONE, the run will fail" in done.stdout
    assert "1 passed" in done.stdout
    assert done.stdout.count("CXX names 'no-such-c++'") == 2
    assert done.returncode == 1


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MPS_EMULATOR_CACHE", str(tmp_path / "a"))
    assert cache_dir("x") == tmp_path / "a/x"
    assert cache_dir("x").is_dir()
    monkeypatch.delenv("MPS_EMULATOR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_dir("x") == tmp_path / "b/mps-emulator/x"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_dir("x") == tmp_path / "c/.cache/mps-emulator/x"


def test_new_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "made"

    def fail() -> None:
        with new_file(target) as path:
            path.write_text("half")
            raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        fail()
    assert list(tmp_path.iterdir()) == []
    with new_file(target) as path:
        path.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]
