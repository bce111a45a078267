"""The stable order of integer keys that backward passes and trees are made of."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import OURS, Bench

from mps_pointops.ops.inverse_index.inverse_index import stable_order

# (keys, highest, quick)
CASES = (
    (5_000, 1_000, True),
    (20_000, 2**20 - 1, False),
    (100_000, 2**20 - 1, False),
    (262_144, 32_768, False),
    (1_000_000, 1_000_000, False),
    (1_000_000, 2**30 - 1, False),
)


def main() -> None:
    bench = Bench("inverse_index")
    for count, highest, quick in CASES:
        sizes = {"keys": count, "highest": highest}
        if bench.wanted("random", quick=quick, **sizes):
            rng = torch.Generator().manual_seed(0)
            keys = torch.randint(highest + 1, (count,), generator=rng, dtype=torch.int32)
            _case(bench, sizes, keys, highest)
    bench.end()


def _case(bench: Bench, sizes: dict[str, int], keys: torch.Tensor, highest: int) -> None:
    there = keys.to(bench.device)

    def sort(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ordered, order = torch.sort(values, stable=True)
        return ordered, order.to(torch.int32)

    bench.case(
        "random",
        sizes,
        {OURS: lambda: stable_order(there, highest), "torch": lambda: sort(there)},
        lambda: sort(keys),
        against="torch.sort",
    )


if __name__ == "__main__":
    main()
