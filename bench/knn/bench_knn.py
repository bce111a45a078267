"""k nearest neighbours: centres of a cloud in the cloud, and features."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench, lattice, sphere

from mps_pointops import knn
from mps_pointops._arithmetic import square_root
from mps_pointops.ops.knn.reference import knn_reference

# (queries, points, k, quick)
CASES = (
    (128, 2_000, 16, True),
    (1_024, 20_000, 128, False),
    (1_024, 100_000, 128, False),
)
FEATURES = ((64, 256, 64, 8, True), (1_024, 1_024, 64, 20, False), (1_024, 1_024, 128, 20, False))


def _expected(query: torch.Tensor, ref: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    d2, index = knn_reference(query, ref, k)
    return square_root(d2)[None], index[None]


def main() -> None:
    bench = Bench("knn")
    data = [
        (f"{make.__name__} {rows} of {size}, k={k}", make(size)[:rows], make(size), k, quick)
        for make in (sphere, lattice)
        for rows, size, k, quick in CASES
    ]
    for rows, size, dim, k, quick in FEATURES:
        ref = torch.randn(size, dim, generator=torch.Generator().manual_seed(dim))
        data.append((f"features {rows} of {size}, D={dim}, k={k}", ref[:rows], ref, k, quick))
    for case, query, ref, k, quick in data:
        if bench.options.quick and not quick:
            continue
        moved = query[None].to(bench.device), ref[None].to(bench.device)
        bench.row(
            case,
            lambda moved=moved, k=k: knn(*moved, k),
            lambda query=query, ref=ref, k=k: _expected(query, ref, k),
        )
    bench.end()


if __name__ == "__main__":
    main()
