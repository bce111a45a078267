"""Peak memory of the CPU searches, each in a process of its own (Linux)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CASES = (
    ("knn", 1_000_000, 16),
    ("knn", 100_000, 128),
    ("radius", 1_000_000, 16),
    ("radius", 1_000_000, 32),
)
QUICK = (("knn", 3_000, 16),)
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(quick: bool) -> None:
    """Print what a search needs beside its results and SciPy's tree."""
    print(
        f"{'peak memory':30} {'results MB':>11} {'tree MB':>8} {'peak MB':>8}  peak - tree, results"
    )
    for name, size, k in QUICK if quick else CASES:
        found = []
        for what in ("tree", name):
            command = [sys.executable, __file__, what, str(size), str(k)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"{name} {size} k={k}: not measured ({done.stderr.strip()[-80:]})")
                break
            found.append([float(value) for value in done.stdout.split()])
        else:
            (tree, _), (peak, results) = found
            print(
                f"{f'{name} {size} k={k}':30} {results:11.1f} {tree:8.1f} {peak:8.1f}  "
                f"{(peak - tree) / results:.2f}"
            )


def _peak() -> float:
    """Most memory of this process so far, in MB."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmHWM")


def main() -> None:
    """Print the growth of the peak by a call, and the size of its results, in MB."""
    import torch
    from scipy.spatial import cKDTree

    from mps_pointops import flat, knn

    what, size, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    points = torch.rand(size, 3, generator=torch.Generator().manual_seed(0))
    few = points[:3000]
    r = (k / size / 4.19) ** (1 / 3)
    calls = {
        "tree": lambda p: cKDTree(p.double().numpy(), 32, compact_nodes=False, balanced_tree=False),
        "knn": lambda p: knn(p[None], p[None], k),
        "radius": lambda p: flat.radius(p, p, r, max_num_neighbors=4 * k),
    }
    calls[what](few)
    _RESET.write_text("5")  # the peak begins anew
    before = _peak()
    found = calls[what](points)
    results = () if what == "tree" else found if isinstance(found, tuple) else (found,)
    size_of = sum(result.numel() * result.element_size() for result in results)
    print(_peak() - before, size_of / 2**20)


if __name__ == "__main__":
    main()
