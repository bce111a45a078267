"""Builds the device extension with the system's C++ compiler, once for each PyTorch."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from mps_emulator._cache import cache_dir, exclusive, new_file

_SOURCES = Path(__file__).parent / "csrc"
_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-w")


class BuildError(RuntimeError):
    """The device extension could not be built."""


def extension() -> Path:
    """Returns the path of the built extension; builds it if this PyTorch has none yet."""
    compiler = cxx()
    version = _run([*compiler, "--version"], "ask the C++ compiler for its version").strip()
    target = cache_dir("device") / f"host_mps-{torch.__version__}-{_key(version)}.so"
    if not target.exists():
        with exclusive(target):
            if not target.exists():  # another process may have built it meanwhile
                _build(compiler, target)
    return target


def cxx() -> list[str]:
    """Returns the command of the system's C++ compiler, or raises what to do."""
    chosen = os.environ.get("CXX")
    command = shlex.split(chosen) if chosen else ["g++"]
    if not command or shutil.which(command[0]) is None:
        wanted = f"CXX names {chosen!r}, which" if chosen else "g++"
        raise BuildError(
            f"{wanted} was not found. The emulated mps device is built with the system's C++ "
            "compiler on first use. Install one (Debian, Ubuntu: `apt-get install g++`; "
            "Fedora: `dnf install gcc-c++`), or set CXX to a GCC 11+ or Clang 14+ command."
        )
    return command


def _key(compiler_version: str) -> str:
    digest = hashlib.sha256()
    for part in (torch.__version__, str(torch.version.git_version), compiler_version, *_flags()):
        digest.update(part.encode() + b"\0")
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _flags() -> list[str]:
    return [*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]


def _build(compiler: list[str], target: Path) -> None:
    root = Path(torch.__file__).parent
    include = root / "include"
    headers = [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}"]
    with tempfile.TemporaryDirectory(prefix="mps-emulator-") as folder, new_file(target) as library:

        def compile_one(source: Path) -> str:
            made = f"{folder}/{source.stem}.o"
            _run(
                [*compiler, *_flags(), *headers, "-c", str(source), "-o", made],
                f"compile {source.name} against torch {torch.__version__}",
            )
            return made

        with ThreadPoolExecutor(os.cpu_count()) as workers:
            objects = list(workers.map(compile_one, sorted(_SOURCES.glob("*.cpp"))))
        libraries = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
        _run(
            [*compiler, "-shared", *objects, *libraries, "-o", str(library)],
            "link the device extension",
        )


def _run(command: list[str], purpose: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip().splitlines()
        shown = [line for line in output if "error" in line][:20] or output[-20:]
        raise BuildError(
            f"could not {purpose}: `{command[0]}` ended with exit code {done.returncode}.\n"
            + "\n".join(shown)
            + f"\nThe whole command was: {shlex.join(command)}"
        )
    return done.stdout
