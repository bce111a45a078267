"""Can this machine really run Metal kernels? Exit status 0 if so, else 1 and the reason.

``torch.backends.mps.is_available()`` is not enough: virtual machines answer True and then fail at
the first allocation or return zeros from every kernel. So: allocate, compile, run, compare.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable

import torch

MEGABYTES = 16
SOURCE = """
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
kernel void probe(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                  device uint* width [[buffer(2)]], constant float& factor [[buffer(3)]],
                  uint i [[thread_position_in_grid]],
                  uint lanes [[threads_per_simdgroup]]) {
    y[i] = x[i] * factor + 1.0f;
    uint together = simd_sum(1u);
    if (i == 0) width[0] = together + 100u * lanes;
}
"""


class ProbeError(Exception):
    """What does not work, in one sentence."""


def check_available() -> str:
    """The backend says that it exists."""
    if not torch.backends.mps.is_available():
        built = "built" if torch.backends.mps.is_built() else "not built"
        raise ProbeError(f"torch {torch.__version__} ({built} for MPS) finds no MPS device")
    return f"torch {torch.__version__}, {platform.platform()}, {platform.machine()}"


def check_allocation() -> str:
    """Memory can be allocated, written and read back."""
    count = MEGABYTES * 2**20 // 4
    back = torch.full((count,), 3.0, device="mps").cpu()
    if not bool((back == 3.0).all()):
        raise ProbeError(
            f"{MEGABYTES} MB were allocated on mps, but their content did not come back"
        )
    return f"{MEGABYTES} MB allocated, filled and read back"


def check_kernel() -> str:
    """A kernel compiled from source gives the right numbers."""
    x = torch.arange(4096, dtype=torch.float32)
    y = torch.zeros(4096, device="mps")
    width = torch.zeros(1, dtype=torch.int32, device="mps")
    library = torch.mps.compile_shader(SOURCE)
    library.probe(x.to("mps"), y, width, 2.0, threads=4096, group_size=256)
    torch.mps.synchronize()
    if not torch.equal(y.cpu(), x * 2.0 + 1.0):
        wrong = int((y.cpu() != x * 2.0 + 1.0).sum())
        raise ProbeError(f"a compiled kernel gave {wrong} of 4096 wrong values")
    lanes, together = divmod(int(width.item()), 100)
    if (lanes, together) != (32, 32):
        raise ProbeError(
            f"simdgroups of 32 threads were expected; the kernel sees {lanes} and sums {together}"
        )
    fast = os.environ.get("PYTORCH_MPS_FAST_MATH", "0") not in ("", "0")
    return f"kernel compiled and right, simdgroups of {lanes}, {'fast' if fast else 'safe'} math"


def main() -> int:
    """Run the checks in order and stop at the first that fails."""
    checks: tuple[Callable[[], str], ...] = (check_available, check_allocation, check_kernel)
    for check in checks:
        try:
            print(f"mps probe: {check()}", flush=True)
        except Exception as error:
            reason = error if isinstance(error, ProbeError) else f"{type(error).__name__}: {error}"
            annotation = "::error title=MPS probe::" if "GITHUB_ACTIONS" in os.environ else ""
            print(f"{annotation}MPS probe failed in {check.__name__}: {reason}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
