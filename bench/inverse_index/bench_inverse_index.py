"""The stable order of integer keys that backward passes are made of."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench

from mps_pointops.ops.inverse_index.inverse_index import stable_order

# (keys, highest, quick)
CASES = ((5_000, 1_000, True), (262_144, 32_768, False), (1_000_000, 1_000_000, False))


def main() -> None:
    bench = Bench("inverse_index")
    for count, highest, quick in CASES:
        if bench.options.quick and not quick:
            continue
        rng = torch.Generator().manual_seed(0)
        keys = torch.randint(highest + 1, (count,), generator=rng, dtype=torch.int32)
        moved = keys.to(bench.device)
        bench.row(
            f"{count} keys up to {highest}",
            lambda moved=moved, highest=highest: stable_order(moved, highest),
            lambda keys=keys: tuple(t.to(torch.int32) for t in torch.sort(keys, stable=True)),
        )
    bench.end()


if __name__ == "__main__":
    main()
