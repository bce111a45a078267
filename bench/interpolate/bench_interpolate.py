"""Interpolation and its adjoint: the shapes of feature propagation layers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench

from mps_pointops import three_interpolate, three_scatter
from mps_pointops.ops.gather.reference import scatter_reference
from mps_pointops.ops.interpolate.reference import three_interpolate_reference

# (clouds, channels, known, unknown, quick)
CASES = ((2, 16, 100, 400, True), (2, 32, 512, 2_048, False), (2, 64, 2_048, 8_192, False))


def main() -> None:
    bench = Bench("interpolate")
    rng = torch.Generator().manual_seed(0)
    for clouds, channels, known, unknown, quick in CASES:
        if bench.options.quick and not quick:
            continue
        features = torch.randn(clouds, channels, known, generator=rng)
        values = torch.randn(clouds, channels, unknown, generator=rng)
        index = torch.randint(known, (clouds, unknown, 3), generator=rng)
        weight = torch.rand(clouds, unknown, 3, generator=rng)
        case = f"{clouds} x {channels}, {known} -> {unknown}"
        f, v, i, w = (t.to(bench.device) for t in (features, values, index, weight))
        bench.row(
            f"interpolate {case}",
            lambda: three_interpolate(f, i, w),
            lambda: three_interpolate_reference(features, index, weight),
        )
        bench.row(
            f"scatter {case}",
            lambda: three_scatter(v, i, w, known),
            lambda: scatter_reference(values, index.flatten(1), known, weight.flatten(1)),
        )
    bench.end()


if __name__ == "__main__":
    main()
