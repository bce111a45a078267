"""CPU searches beside SciPy's k-d tree (float64, not exact) and torch's cdist and topk, in one run.

Builds of trees are included. "SciPy, sorted" is a caller who first puts the points in the order of
a Morton curve, and the results back. Indices of 64 queries are compared with every pair in NumPy.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import oracle
import torch
from harness import OURS, Bench, lattice, sphere
from memory import memory
from scipy.spatial import cKDTree
from turns import HEADING, compared, on_threads, turns

from mps_pointops import flat, knn

SIZE, QUICK_SIZE, CHECKED = 100_000, 3_000, 64
_TREE = {"leafsize": 32, "balanced_tree": False, "compact_nodes": False}


def equal(size: int) -> torch.Tensor:
    """All points in one place."""
    return torch.full((size, 3), 0.5)


def curve(points: np.ndarray) -> np.ndarray:
    """Rows along a Morton curve of 1024 cells an axis."""
    low = points.min(axis=0)
    cell = ((points - low) * (1023 / max(float((points - low).max()), 1e-30))).astype(np.uint64)
    key = np.zeros(len(points), np.uint64)
    for bit in range(10):
        for axis in range(3):
            key |= ((cell[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(3 * bit + axis)
    return key.argsort()


def nearest(bench: Bench, name: str, points: torch.Tensor, rows: int, k: int) -> None:
    query, array = points[:rows], points.double().numpy()
    threads = torch.get_num_threads()

    def scipy() -> object:
        return cKDTree(array, **_TREE).query(array[:rows], k, workers=threads)

    def in_order() -> object:
        order, asked = curve(array), curve(array[:rows])
        near, number = cKDTree(array[order], **_TREE).query(array[asked], k, workers=threads)
        distance, index = np.empty_like(near), np.empty_like(number)
        distance[asked], index[asked] = near, order[number]
        return distance, index

    calls = {OURS: lambda: knn(query[None], points[None], k), "SciPy": scipy}
    if name != "equal":
        calls["SciPy, sorted"] = in_order
    if rows < len(points):
        calls["cdist and topk"] = lambda: torch.cdist(query, points).topk(k, largest=False)
    some = np.linspace(0, rows - 1, CHECKED).astype(np.int64)
    wanted = torch.from_numpy(oracle.nearest(points.numpy()[some], points.numpy(), k))
    wrong = {OURS: compared(knn(query[None], points[None], k)[1][0, some], wanted)}
    turns(bench, name, {"queries": rows, "points": len(points), "k": k}, calls, wrong)


def radius(bench: Bench, name: str, points: torch.Tensor, r: float) -> None:
    """Up to 64 points of about 32 within a radius, of every point."""
    array, most = points.double().numpy(), 64
    threads = torch.get_num_threads()

    def scipy() -> object:
        return cKDTree(array, **_TREE).query_ball_point(
            array, r, workers=threads, return_sorted=False
        )

    def in_order() -> object:
        ordered = array[curve(array)]
        return cKDTree(ordered, **_TREE).query_ball_point(
            ordered, r, workers=threads, return_sorted=False
        )

    def ours() -> torch.Tensor:
        return flat.radius(points, points, r, max_num_neighbors=most)

    found = ours()
    some = np.linspace(0, len(points) - 1, CHECKED).astype(np.int64)
    expected = oracle.inside(points.numpy()[some], points.numpy(), r, most)
    got = [found[1][found[0] == row] for row in some.tolist()]
    pairs = [compared(g, torch.from_numpy(e)) for g, e in zip(got, expected, strict=True)]
    wrong = {OURS: (sum(w for w, _ in pairs), sum(n for _, n in pairs))}
    sizes = {"points": len(points), "edges": found.shape[1]}
    calls = {OURS: ours, "SciPy": scipy, "SciPy, sorted": in_order}
    turns(bench, f"radius {name}", sizes, calls, wrong)


def main() -> None:
    bench = Bench("cpu_search", HEADING)
    if bench.device != "cpu":
        sys.exit("these rows are of CPU tensors: use --device cpu")
    size = QUICK_SIZE if bench.options.quick else SIZE
    for _ in on_threads():
        for make in (sphere, lattice, equal):
            name, points = make.__name__, make(size)
            if bench.wanted(name, quick=True):
                nearest(bench, name, points, min(1024, size // 50), 128)
                if make is not equal:  # SciPy alone would take half a minute
                    nearest(bench, name, points, size, 16)
        for make in (sphere, lattice):
            if bench.wanted(f"radius {make.__name__}", quick=True):
                points = make(size)
                tree = cKDTree(points.numpy())
                r = float(np.median(tree.query(points.numpy()[::97], 33)[0][:, -1]))
                radius(bench, make.__name__, points, r * 1.0001)
    if bench.wanted("memory", quick=True):
        memory(bench.options.quick)
    bench.end()


if __name__ == "__main__":
    main()
