"""Random walks: uniform and weighted, on graphs of even degree and with hubs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench

from mps_pointops.ops.random_walk.graph import row_begins, sort_edges
from mps_pointops.ops.random_walk.random_walk import random_walk_seeded
from mps_pointops.ops.random_walk.reference import random_walk_reference

# (nodes, edges, walks, length, quick)
CASES = ((200, 2_000, 50, 10, True), (10_000, 200_000, 10_000, 20, False))
# The check is made on the first walks: a walk does not depend on the number of them.
CHECKED = 50


def _hubs(nodes: int, edges: int, rng: torch.Generator) -> torch.Tensor:
    """Nodes of edges, a few of them in most."""
    return (torch.rand(edges, generator=rng) ** 4 * nodes).to(torch.int64)


def main() -> None:
    bench = Bench("random_walk")
    seed = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    for nodes, edges, walks, length, quick in CASES:
        if bench.options.quick and not quick:
            continue
        rng = torch.Generator().manual_seed(0)
        even = torch.randint(nodes, (2, edges), generator=rng)
        hubs = torch.stack([_hubs(nodes, edges, rng) for _ in range(2)])
        start = torch.randint(nodes, (walks,), generator=rng)
        for name, (a, b) in (("even", even), ("hubs", hubs)):
            row, col, _ = sort_edges(torch.cat((a, b)), torch.cat((b, a)), nodes)
            rowptr = row_begins(row, nodes)
            moved = [t.to(bench.device) for t in (rowptr, col, start)]
            lists = [t.tolist() for t in (rowptr, col, start[:CHECKED])]
            for p, q in ((1, 1), (0.25, 4), (4, 0.25)):
                case = f"{name}, {nodes} nodes, {walks} x {length}, p {p}, q {q}"
                run = [length, p, q, seed.to(bench.device)]
                wanted = random_walk_reference(*lists, length, p, q, seed.tolist())
                bench.row(
                    f"check of {case}",
                    lambda moved=moved, run=run: random_walk_seeded(
                        *moved[:2], moved[2][:CHECKED], *run
                    ),
                    lambda wanted=wanted: tuple(torch.tensor(part) for part in wanted),
                )
                first = random_walk_seeded(*moved, *run)[0][:CHECKED].cpu()
                bench.row(
                    case,
                    lambda moved=moved, run=run: random_walk_seeded(*moved, *run)[0][:CHECKED],
                    lambda first=first: first,
                )
    bench.end()


if __name__ == "__main__":
    main()
