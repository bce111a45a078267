"""Run clang as a Metal front end: C++ for OpenCL with headers that declare Metal's names."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mps_emulator.check._source import Source

SHIM = Path(__file__).parent / "shim"
_EXTENSIONS = (
    "-all,+cl_khr_fp16,+__cl_clang_non_portable_kernel_param_types,"
    "+__opencl_c_generic_address_space"
)
_LANGUAGE = (
    *("-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64-unknown-unknown"),
    *("-nostdinc", "-cl-no-stdinc", "-cl-single-precision-constant"),
    *("-Xclang", f"-cl-ext={_EXTENSIONS}"),
    *("-D__METAL__=1", "-D__METAL_MACOS__=1", "-D__HAVE_BFLOAT__=1"),
)
_WARNINGS = (
    *("-Wall", "-Wextra", "-Wshorten-64-to-32", "-Wconditional-uninitialized"),
    *("-Wno-unknown-pragmas", "-Wno-unknown-attributes", "-Wno-ignored-attributes"),
    *("-Wno-unused-parameter", "-Wno-unused-function", "-Wno-unused-const-variable"),
    # a variable may serve another variant of the #define lines
    *("-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-missing-field-initializers"),
)
_OUTPUT = (
    # fast: every float operation that no pragma protects carries the flag `contract` in the IR
    *("-S", "-emit-llvm", "-gline-tables-only", "-ffp-contract=fast"),
    *("-Xclang", "-disable-llvm-passes", "-o", "-"),
    *("-fno-caret-diagnostics", "-fno-color-diagnostics", "-ferror-limit=50"),
)


class ClangMissingError(RuntimeError):
    """No clang was found that understands C++ for OpenCL."""


@functools.cache
def find_clang() -> tuple[str, ...]:
    """Command line that starts clang.

    ``$MPS_EMULATOR_CLANG`` first, then the one in the PyPI package ``ziglang``, then ``clang`` on
    the path.

    Raises:
        ClangMissingError: None of them exists.
    """
    named = os.environ.get("MPS_EMULATOR_CLANG")
    if named:
        return (named,)
    package = importlib.util.find_spec("ziglang")
    if package and package.submodule_search_locations:
        binary = Path(package.submodule_search_locations[0]) / "zig"
        if binary.exists():
            return (str(binary), "clang")
    found = shutil.which("clang")
    if found:
        return (found,)
    raise ClangMissingError(
        "the shader checker needs clang: install the package `ziglang` (pip install ziglang) "
        "or name a clang in $MPS_EMULATOR_CLANG"
    )


def _run(arguments: tuple[str, ...], text: str, folder: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*find_clang(), *_LANGUAGE, *arguments, "-"],
        cwd=folder,  # an empty folder: a quoted include finds nothing by accident
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@dataclass(frozen=True)
class Compiled:
    """What clang made of one shader.

    Attributes:
        preprocessed: The text after macros, with Metal's own words kept.
        ir: LLVM IR; empty when there were errors.
        messages: Diagnostics.
    """

    preprocessed: str
    ir: str
    messages: str


def run_clang(source: Source, *, version: int, defines: Mapping[str, str]) -> Compiled:
    """Preprocess and compile one shader."""
    text = source.for_clang(defines)
    macros = (f"-D__METAL_VERSION__={version}",)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        plain = pool.submit(_run, (*macros, "-E", "-w"), text, folder)
        compiled = _run(_compilation(source, version, ()), text, folder)
        preprocessed = plain.result().stdout
    if compiled.returncode and "error: " not in compiled.stderr:
        raise RuntimeError(
            f"clang failed on {source.name} without naming an error: {compiled.stderr.strip()}"
        )
    return Compiled(preprocessed, _ir(compiled), compiled.stderr)


def run_second_pass(source: Source, *, version: int, defines: Mapping[str, str]) -> Compiled:
    """Compile with `constant` read as read-only device memory (see constant_copies.h)."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = _compilation(source, version, ("constant_copies.h",))
        compiled = _run(arguments, source.for_clang(defines), folder)
    return Compiled("", _ir(compiled), compiled.stderr)


def _compilation(source: Source, version: int, extra: tuple[str, ...]) -> tuple[str, ...]:
    headers = ("language.h", *(("stdlib.h",) if source.includes_library else ()), *extra)
    includes = [word for header in headers for word in ("-include", str(SHIM / header))]
    newer = () if version >= 400 else ("-Wpre-c++17-compat",)
    features = ("-Xclang", "-cl-ext=+__opencl_c_program_scope_global_variables") if extra else ()
    return (f"-D__METAL_VERSION__={version}", *_WARNINGS, *newer, *includes, *features, *_OUTPUT)


def _ir(compiled: subprocess.CompletedProcess[str]) -> str:
    return compiled.stdout if compiled.returncode == 0 else ""
