"""Graclus clusters: greedy matchings of random and of unfavourable graphs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench

from mps_pointops.ops.graclus_cluster.graclus_cluster import graclus_core, greedy_matching
from mps_pointops.ops.graclus_cluster.order import edge_order, random_order

# (nodes, edges, weighted, quick)
RANDOM = (
    (1_000, 4_000, False, True),
    (1_000, 4_000, True, True),
    (100_000, 800_000, False, False),
    (100_000, 800_000, True, False),
    (1_000_000, 4_000_000, True, False),
)
PATHS = ((2_000, True), (100_000, False))


def main() -> None:
    bench = Bench("graclus_cluster")
    for nodes, edges, weighted, quick in RANDOM:
        if bench.options.quick and not quick:
            continue
        rng = torch.Generator().manual_seed(0)
        row, col = torch.randint(nodes, (2, edges), generator=rng)
        weight = torch.rand(edges, generator=rng).to(bench.device) if weighted else None
        ends = row.to(bench.device), col.to(bench.device)

        def seeded(ends=ends, weight=weight, nodes=nodes):
            torch.manual_seed(0)
            return graclus_core(*ends, weight, nodes)

        def expected(row=row, col=col, weight=weight, nodes=nodes):
            torch.manual_seed(0)
            order = edge_order(weight, random_order(row.shape[0], torch.device(bench.device)))
            order = order.cpu()
            return greedy_matching(row[order], col[order], nodes)

        kind = "weighted" if weighted else "no weights"
        bench.row(f"{nodes} nodes, {edges} edges, {kind}", seeded, expected, "CPU path")
    for nodes, quick in PATHS:
        if bench.options.quick and not quick:
            continue
        number = torch.arange(nodes - 1)
        ends = number.to(bench.device), number.to(bench.device) + 1
        bench.row(
            f"path of {nodes} nodes, falling weights",
            lambda ends=ends, nodes=nodes: greedy_matching(*ends, nodes),
            lambda number=number, nodes=nodes: greedy_matching(number, number + 1, nodes),
            "CPU path",
        )
    bench.end()


if __name__ == "__main__":
    main()
