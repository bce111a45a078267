"""Interpolation and its adjoint: the shapes of feature propagation layers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import OURS, Bench

from mps_pointops import three_interpolate, three_scatter

# (clouds, channels, known, unknown, quick)
CASES = ((2, 16, 100, 400, True), (2, 32, 512, 2_048, False), (2, 64, 2_048, 8_192, False))


def main() -> None:
    bench = Bench("interpolate")
    rng = torch.Generator().manual_seed(0)
    for clouds, channels, known, unknown, quick in CASES:
        sizes = {"clouds": clouds, "channels": channels, "known": known, "unknown": unknown}
        if not any(bench.wanted(name, quick=quick, **sizes) for name in ("interpolate", "scatter")):
            continue
        features = torch.randn(clouds, channels, known, generator=rng)
        values = torch.randn(clouds, channels, unknown, generator=rng)
        index = torch.randint(known, (clouds, unknown, 3), generator=rng)
        weight = torch.rand(clouds, unknown, 3, generator=rng)
        f, v, i, w = (t.to(bench.device) for t in (features, values, index, weight))
        if bench.wanted("interpolate", quick=quick, **sizes):
            ours = {OURS: lambda f=f, i=i, w=w: three_interpolate(f, i, w)}
            expected = three_interpolate(features, index, weight)
            bench.case("interpolate", sizes, ours, lambda e=expected: e)
        if bench.wanted("scatter", quick=quick, **sizes):
            ours = {OURS: lambda v=v, i=i, w=w, known=known: three_scatter(v, i, w, known)}
            expected = three_scatter(values, index, weight, known)
            bench.case("scatter", sizes, ours, lambda e=expected: e)
    bench.end()


if __name__ == "__main__":
    main()
