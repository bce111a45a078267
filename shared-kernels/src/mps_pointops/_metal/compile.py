"""From a room's `.metal` file to a compiled library, once per set of options and process.

`torch.mps.compile_shader` takes one string and keeps no cache, so shared text is prepended here and
options become `#define` lines. A library is compiled on first use; the first one also checks what
every kernel relies on: simdgroups of 32 threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import product
from typing import Any

import torch

_lock = threading.RLock()
_sources: list[Source] = []


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="ascii")


class Source:
    """A room's kernel text with the options it can be compiled for.

    Args:
        package: import name of the room that holds the file.
        name: the file is `<name>.metal`.
        options: option name -> the values it can have.
        shared: shared texts, from this folder, to put before it.
        kernels: the kernels in it, where they are not one of the file's name.
    """

    def __init__(
        self,
        package: str,
        name: str,
        options: Mapping[str, tuple[int, ...]],
        *shared: str,
        kernels: tuple[str, ...] = (),
    ) -> None:
        self.package = package
        self.name = name
        self.options = dict(options)
        self.shared = ("arithmetic", *shared)
        self.kernels = kernels or (name,)
        self._kernels: dict[tuple[int, ...], dict[str, Any]] = {}
        _sources.append(self)

    def text(self, *values: int) -> str:
        """The full Metal source for one value of every option, in their order."""
        defines = [
            f"#define {option} {value}" for option, value in zip(self.options, values, strict=True)
        ]
        texts = [(__package__, part) for part in self.shared] + [(self.package, self.name)]
        # messages of the compiler then name the file and its line; Metal's headers come first, as
        # their text may use the names of options
        parts = [
            f'#line 1 "{name}.metal"\n{_read(package, f"{name}.metal")}' for package, name in texts
        ]
        return "\n".join(["#include <metal_stdlib>", *defines, *parts])

    def kernel(self, *values: int, name: str | None = None) -> Any:
        """A compiled kernel, the first one by default, for one value of every option."""
        found = self._kernels.get(values)
        if found is None:
            with _lock:
                found = self._kernels.get(values)
                if found is None:
                    found = self._compile(values)
                    self._kernels[values] = found
        return found[name or self.kernels[0]]

    def _compile(self, values: tuple[int, ...]) -> dict[str, Any]:
        library = torch.mps.compile_shader(self.text(*values))
        kernels = {name: getattr(library, name) for name in self.kernels}
        width = kernels[self.kernels[0]].thread_execution_width
        if width != 32:
            raise RuntimeError(
                f"mps_pointops: kernels need simdgroups of 32 threads, this GPU has {width}; "
                "move the tensors to the CPU and report the chip"
            )
        return kernels


def variants() -> Iterator[tuple[str, str]]:
    """Name and full text of every library that can be asked for, of every room imported so far."""
    for source in _sources:
        for values in product(*source.options.values()):
            label = " ".join(
                f"{option}={value}" for option, value in zip(source.options, values, strict=True)
            )
            yield f"{source.name}.metal [{label}]", source.text(*values)
