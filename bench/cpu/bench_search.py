"""CPU searches beside SciPy's k-d tree (float64, not exact) and torch's cdist and topk, in one run.

Tree builds are included. A row shows the median, what it is of SciPy's, and how many of the indices
of 256 queries differ from the reference.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from harness import lattice, sphere
from scipy.spatial import cKDTree

from mps_pointops import knn
from mps_pointops.ops.knn.reference import knn_reference


def main() -> None:
    size = 100_000
    quick = "--quick" in sys.argv
    clouds = {"sphere": sphere, "lattice": lattice, "equal": lambda n: torch.full((n, 3), 0.5)}
    print(f"{'case':30} {'threads':>7} {'ours ms':>9} {'scipy ms':>9} {'cdist ms':>9} ratio  wrong")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, make in clouds.items():
            points = make(size // 20 if quick else size)
            for rows, k in ((1024, 128), (len(points), 16)):
                if rows > 1024 and name == "equal":
                    continue  # SciPy alone would take half a minute
                _row(name, points, rows, k, threads, 1 if quick else 5)


def _row(name: str, points: torch.Tensor, rows: int, k: int, threads: int, repeats: int) -> None:
    query, array = points[:rows], points.double().numpy()

    def scipy() -> None:
        tree = cKDTree(array, leafsize=32, balanced_tree=False, compact_nodes=False)
        tree.query(array[:rows], k, workers=threads)

    def cdist() -> None:
        torch.cdist(query, points).topk(k, largest=False)

    calls = [lambda: knn(query[None], points[None], k), scipy]
    if rows <= 1024:
        calls.append(cdist)  # quadratic memory
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):  # interleaved, as other work may share the machine
        for call, spent in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            spent.append((time.perf_counter() - begin) * 1e3)
    ours, other, *rest = (statistics.median(spent) for spent in times)
    some = torch.from_numpy(np.linspace(0, rows - 1, 256).astype(np.int64))
    index = knn(query[None], points[None], k)[1][0, some]
    wrong = int((index != knn_reference(query[some], points, k)[1]).sum())
    slow = f"{rest[0]:9.1f}" if rest else f"{'-':>9}"
    case = f"{name} {rows} k={k}"
    print(f"{case:30} {threads:7} {ours:9.1f} {other:9.1f} {slow} {ours / other:5.2f} {wrong:6}")


if __name__ == "__main__":
    main()
