"""Very many small clouds are searched together: the work of Python does not follow their number."""

import sys

import pytest
import torch

import mps_pointops
from mps_pointops import flat
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import assert_same_bits, cloud


def _clouds(count, dtype=torch.float32):
    """Points of clouds of three, some of one and some empty, and their clouds."""
    sizes = torch.full((count,), 3)
    sizes[::7], sizes[1::11] = 0, 1
    batch = torch.arange(count).repeat_interleave(sizes)
    return cloud("lattice", len(batch)).to(dtype), cloud("not_finite", len(batch)).to(dtype), batch


def _calls_of(search):
    """Functions that one call calls, of Python and of C."""
    count = 0

    def tell(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    search()
    sys.setprofile(tell)
    try:
        search()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "search",
    [
        lambda x, y, b: flat.knn(x, y, 2, b, b),
        lambda x, y, b: flat.knn(x, y, 2, b, b, rule="cosine"),
        lambda x, y, b: flat.radius(x, y, 0.5, b, b),
        lambda x, y, b: flat.nearest(x, x, b, b),
        lambda x, y, b: flat.fps(x, b, 0.5),
    ],
    ids=["knn", "cosine", "radius", "nearest", "fps"],
)
def test_calls_do_not_follow_the_number_of_clouds(search, dtype):
    few, many = (_calls_of(lambda n=n: search(*_clouds(n, dtype))) for n in (200, 4000))
    assert many < few + 400


def test_clouds_of_one_size():
    few, many = (
        _calls_of(
            lambda n=n: mps_pointops.knn(
                *[cloud("random", 3 * n).view(n, 3, 3)] * 2, 2, rule="cosine"
            )
        )
        for n in (200, 4000)
    )
    assert many < few + 400


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_cosine_of_many_clouds(k, dtype):
    """Small clouds and large ones in one call, each as the reference has it."""
    x, y, batch = _clouds(60, dtype)
    large = cloud("lattice", 700, seed=3).to(dtype)
    x, y = torch.cat((x, large)), torch.cat((y, large[:40]))
    batch_x = torch.cat((batch, batch.new_full((700,), 61)))
    batch_y = torch.cat((batch, batch.new_full((40,), 61)))
    wanted = []
    for b in range(62):
        rows, points = ((t == b).nonzero()[:, 0] for t in (batch_y, batch_x))
        _, index = knn_reference(y[rows], x[points], k, Rule.COSINE)
        row, slot = (index >= 0).nonzero(as_tuple=True)
        wanted.append(torch.stack((rows[row], points[index[row, slot]])))
    found = flat.knn(x, y, k, batch_x, batch_y, rule="cosine")
    assert_same_bits(found, torch.cat(wanted, dim=1))
