"""The compiler: clang and lld of the PyPI package ziglang, and the files that they make once."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mps_emulator._cache import cache_dir, exclusive, new_file

RUNTIME = Path(__file__).parent / "runtime"
SOURCE_NAME = "program_source"  # what a Mac calls the text in its messages
ENTRY_POINTS = "entry_points"  # the file of the functions that start a lane

# Headers of the Metal standard library: one header serves them all.
METAL_HEADERS = (
    *("metal_stdlib", "metal_algorithm", "metal_array", "metal_assert", "metal_atomic"),
    *("metal_common", "metal_compute", "metal_config", "metal_extended_vector", "metal_float"),
    *("metal_geometric", "metal_integer", "metal_limits", "metal_math", "metal_numeric"),
    *("metal_pack", "metal_quadgroup", "metal_relational", "metal_simdgroup", "metal_types"),
    *("metal_type_traits", "metal_utility"),
)
_TARGET = ("-target", "x86_64-linux-gnu", "-march=x86-64-v3")
_CODE = (
    *("-O1", "-fPIC", "-fvisibility=hidden", "-ffreestanding", "-nostdinc", "-fwrapv"),
    *("-fno-vectorize", "-fno-slp-vectorize", "-fno-exceptions", "-fno-rtti"),
    # An operation's return address tells which one it is: calls are not merged, copied or turned
    # into jumps. Loops without effect stay, to be stopped by the time limit.
    *("-fno-optimize-sibling-calls", "-fconvergent-functions", "-fno-finite-loops"),
    *("-mllvm", "-enable-tail-merge=0", "-mllvm", "-disable-tail-duplicate"),
    *("-mllvm", "-disable-early-taildup", "-mllvm", "-tail-dup-placement=0"),
    *("-fno-threadsafe-statics", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"),
    *("-fno-lax-vector-conversions", "-fdenormal-fp-math=preserve-sign,preserve-sign"),
    *("-Xclang", "-ffloat16-excess-precision=none"),
    *("-Xclang", "-fbfloat16-excess-precision=none"),
    *("-gdwarf-4", "-gline-tables-only", "-fno-strict-float-cast-overflow"),
    *("-Wno-everything", "-Werror=return-type", "-Werror=global-constructors", "-ferror-limit=20"),
)
# Every load, store and block copy calls a function of the runtime.
_CHECKS = (
    *(
        "-fsanitize=kernel-address",
        "-fsanitize=alignment,bounds,integer-divide-by-zero,shift-exponent",
    ),
    "-fno-sanitize-recover=undefined",
    *("-mllvm", "-asan-instrumentation-with-call-threshold=0"),
    *("-mllvm", "-asan-opt-globals=0", "-mllvm", "-asan-globals=0", "-mllvm", "-asan-stack=0"),
    *("-mllvm", "-asan-kernel-mem-intrinsic-prefix=1"),
    *("-mllvm", "-asan-memory-access-callback-prefix=msl_check_"),
)
_SAFE_MATH = ("-ffp-contract=on",)
_FAST_MATH = (
    *("-ffinite-math-only", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
    *("-fapprox-func", "-fno-trapping-math", "-fno-math-errno"),
    *("-ffp-contract=fast-honor-pragmas",),
)


@dataclass(frozen=True)
class Mode:
    """What a compilation depends on besides the text.

    Args:
        fast_math: Fast math where no pragma forbids it.
        metal_version: Value of ``__METAL_VERSION__``.
        checks: Check loads and stores.
    """

    fast_math: bool
    metal_version: int
    checks: bool

    def defines(self) -> tuple[str, ...]:
        """Returns the macros that the Metal compiler predefines."""
        version = f"-D__METAL_VERSION__={self.metal_version}"
        return ("-D__METAL__=1", version, "-D__METAL_MACOS__=1")

    def flags(self) -> tuple[str, ...]:
        """Returns the flags for the header and for shaders, which must agree."""
        standard = "-std=c++17" if self.metal_version >= 400 else "-std=c++14"
        math = _FAST_MATH if self.fast_math else _SAFE_MATH
        checks = _CHECKS if self.checks else ()
        return (*_TARGET, standard, *_CODE, *math, *checks, *self.defines())


@functools.cache
def zig() -> Path:
    """Returns the ziglang executable, or raises what to do."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "AMD64"):
        raise RuntimeError(
            "the shader executor of mps_emulator runs on x86-64 Linux only, "
            f"not on {sys.platform} {machine}"
        )
    missing = {"avx2", "fma", "f16c", "bmi2"} - _cpu_flags()
    if missing:
        raise RuntimeError(
            "the shader executor of mps_emulator needs a processor with AVX2, FMA, F16C and "
            f"BMI2; this one lacks {', '.join(sorted(missing))}"
        )
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "the shader executor of mps_emulator compiles with clang from the package "
            "'ziglang', which is not installed: pip install ziglang"
        )
    return Path(spec.origin).parent / "zig"


def _cpu_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()


def run(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``zig`` with the arguments and returns what it said; the caller judges the result."""
    command = [str(zig()), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def _built(result: subprocess.CompletedProcess[str], what: str) -> None:
    if result.returncode:
        raise RuntimeError(f"building {what} of mps_emulator failed:\n{result.stderr[:4000]}")


@functools.cache
def fingerprint() -> str:
    """Returns a hash of the compiler's version and of the runtime's files."""
    digest = hashlib.sha256(importlib.metadata.version("ziglang").encode())
    for path in sorted(RUNTIME.iterdir()):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(repr((_TARGET, _CODE, _CHECKS, _SAFE_MATH, _FAST_MATH, METAL_HEADERS)).encode())
    return digest.hexdigest()[:16]


@functools.cache
def header_stubs() -> Path:
    """Returns a folder with an empty file for every header of the Metal standard library."""
    folder = cache_dir("shader") / f"stubs-{fingerprint()}"
    folder.mkdir(exist_ok=True)
    for name in METAL_HEADERS:
        if not (folder / name).exists():
            (folder / name).touch()
    return folder


@functools.cache
def precompiled_header(mode: Mode) -> Path:
    """Returns the precompiled header for a mode; builds it on first use."""
    folder = cache_dir("shader")
    digest = hashlib.sha256(f"{fingerprint()} {RUNTIME} {mode}".encode()).hexdigest()[:16]
    target = folder / f"metal-{digest}.pch"
    with exclusive(target):
        if not target.exists():
            with new_file(target) as temporary:
                flags = ("-x", "c++-header", *mode.flags())
                # By content, so that a copied checkout does not look like a changed header.
                result = run("clang", *flags, RUNTIME / "metal.h", "-Xclang",
                             "-fno-pch-timestamp", "-o", temporary)  # fmt: skip
                _built(result, "the Metal header")
    return target


@functools.cache
def runtime() -> ctypes.CDLL:
    """Returns the loaded scheduler and memory checker; builds them on first use."""
    target = cache_dir("shader") / f"runtime-{fingerprint()}.so"
    with exclusive(target):
        if not target.exists():
            _build_runtime(target)
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)  # shaders call expf and its like
    return ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)


def _build_runtime(target: Path) -> None:
    lib = zig().parent / "lib"
    libc = lib / "libc" / "include"
    includes = [lib / "include"]
    names = ("x86-linux-gnu", "x86_64-linux-gnu", "generic-glibc", "x86-linux-any")
    includes += [libc / name for name in (*names, "x86_64-linux-any", "any-linux-any")]
    flags: list[str | Path] = ["-std=c++17", *_TARGET, "-O2", "-fPIC", "-nostdinc"]
    flags += ["-fno-exceptions", "-fno-rtti", "-fno-omit-frame-pointer", "-D_GNU_SOURCE"]
    for folder in includes:
        if folder.is_dir():
            flags += ["-isystem", folder]
    with new_file(target) as temporary:
        objects = []
        for source in sorted(RUNTIME.glob("*.cpp")):
            made = temporary.with_name(f"{temporary.name}.{source.stem}.o")
            objects.append(made)
            _built(run("clang", "-x", "c++", *flags, "-c", source, "-o", made), source.name)
        result = run("ld.lld", "-shared", "-Bsymbolic", *objects, "-o", temporary)
        for made in objects:
            made.unlink(missing_ok=True)
        _built(result, "the runtime")


def preprocess(source: str, mode: Mode) -> subprocess.CompletedProcess[str]:
    """Expands the macros and conditionals of a Metal source."""
    standard = "-std=c++17" if mode.metal_version >= 400 else "-std=c++14"
    flags = ("-x", "c++", "-E", standard, "-nostdinc", "-ffreestanding", "-w", *mode.defines())
    marked = f'# 1 "{SOURCE_NAME}"\n{source}'
    return run("clang", *_TARGET, *flags, "-isystem", header_stubs(), "-", text=marked)


def compile_object(text: str, mode: Mode, made: Path) -> subprocess.CompletedProcess[str]:
    """Compiles rewritten text to an object file."""
    header = ("-Xclang", "-fno-pch-timestamp", "-include-pch", str(precompiled_header(mode)))
    flags = ("-x", "c++", *mode.flags(), *header)
    return run("clang", *flags, "-c", "-", "-o", made, text=text)


def link(made: Path, target: Path) -> None:
    """Links an object file to a shared object; the runtime's symbols stay open until loading."""
    _built(run("ld.lld", "-shared", "-Bsymbolic", made, "-o", target), "a shader")
