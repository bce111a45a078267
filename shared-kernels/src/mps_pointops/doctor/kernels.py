"""Which kernels compile, and for simdgroups of which width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from mps_pointops._metal import variants
from mps_pointops.doctor.finding import OK, PROBLEM, Finding

_WIDTH_PROBE = """
kernel void simd_width(device int* width [[buffer(0)]],
                       uint lanes [[threads_per_simdgroup]]) {
    width[0] = int(lanes);
}
"""
_REPORT = "report it with the output of --json; until then keep the tensors on the CPU"


def _chosen(every: bool) -> Iterator[tuple[str, str]]:
    """Label and text of every library, or of the first of each file."""
    seen: set[str] = set()
    for label, text in variants():
        file = label.partition(" ")[0]
        if every or file not in seen:
            seen.add(file)
            yield label, text


def check_kernels(*, every: bool) -> tuple[list[Finding], dict[str, Any]]:
    """Compile on the mps device; `every`: for all options, else for one set of each file."""
    facts: dict[str, Any] = {"simd_width": None, "compiled": [], "failed": {}}
    findings: list[Finding] = []
    try:
        facts["simd_width"] = _simd_width()
    except Exception as error:
        what = f"no kernel compiles at all: {_first_line(error)}"
        return [Finding(PROBLEM, "kernels", "simd width", what, _REPORT)], facts
    if facts["simd_width"] != 32:
        what = f"this GPU has simdgroups of {facts['simd_width']} threads, the kernels need 32"
        findings.append(Finding(PROBLEM, "kernels", "simd width", what, _REPORT))
    for label, text in _chosen(every):
        try:
            library = torch.mps.compile_shader(text)
            for name in dir(library):
                if not name.startswith("_"):
                    getattr(library, name)  # builds its pipeline
            facts["compiled"].append(label)
        except Exception as error:
            facts["failed"][label] = str(error)
            what = f"does not compile: {_first_line(error)}"
            findings.append(Finding(PROBLEM, "kernels", label, what, _REPORT))
    if not findings:
        count = len(facts["compiled"])
        what = f"{count} libraries compile, simdgroups of 32 threads"
        findings.append(Finding(OK, "kernels", "all" if every else "one of each file", what))
    return findings, facts


def _simd_width() -> int:
    width = torch.zeros(1, dtype=torch.int32, device="mps")
    torch.mps.compile_shader(_WIDTH_PROBE).simd_width(width, threads=1, group_size=1)
    return int(width)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
