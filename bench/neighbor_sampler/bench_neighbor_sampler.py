"""Sampling of neighbours, by count and by part. It runs on CPU tensors, whatever the device."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench

from mps_pointops.ops.neighbor_sampler import neighbor_sampler
from mps_pointops.ops.neighbor_sampler.reference import is_sample

# (nodes, degree, starts, quick)
CASES = ((500, 20, 100, True), (100_000, 50, 10_000, False))


def main() -> None:
    bench = Bench("neighbor_sampler")
    for nodes, degree, starts, quick in CASES:
        if bench.options.quick and not quick:
            continue
        rng = torch.Generator().manual_seed(0)
        degrees = torch.randint(2 * degree, (nodes,), generator=rng)
        rowptr = torch.cat((torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)))
        start = torch.randint(nodes, (starts,), generator=rng)
        lists = start.tolist(), rowptr.tolist()
        for size in (0.3, 1, 10):

            def sample(start=start, rowptr=rowptr, size=size) -> torch.Tensor:
                torch.manual_seed(0)
                return neighbor_sampler(start, rowptr, size)

            def expected(sample=sample, lists=lists, size=size) -> torch.Tensor:
                edges = sample()
                right = is_sample(edges.tolist(), *lists, size)
                return edges if right else torch.full_like(edges, -1)

            bench.row(f"{starts} of {nodes} nodes, size {size}", sample, expected)
    bench.end()


if __name__ == "__main__":
    main()
