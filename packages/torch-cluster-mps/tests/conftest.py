"""Fixtures of the torch_cluster stand-in, and brute force in exact arithmetic."""

import pytest
import torch

from pointops_testing.releases import captured_sizes

DTYPES = [torch.half, torch.bfloat16, torch.float, torch.double, torch.int32, torch.int64]


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Every test of behaviour runs on both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param


@pytest.fixture(autouse=True)
def _whole_graphs():
    with captured_sizes():
        yield


@pytest.fixture(params=DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request, device):
    """Every dtype of coordinates that the device has."""
    if request.param == torch.double and device == "mps":
        pytest.skip("no such tensors on MPS")
    return request.param


class Exact:
    """What the functions must answer for points of small whole numbers, where nothing rounds."""

    @staticmethod
    def points(size, dim, seed=0, low=0, high=8):
        """Points [size, dim], int64 on the CPU, with ties and duplicates."""
        rng = torch.Generator().manual_seed(seed * 7919 + size * 31 + dim)
        return torch.randint(low, high, (size, dim), generator=rng)

    @staticmethod
    def squares(y, x, batch_y=None, batch_x=None):
        """Squared distances [M, N] as Python numbers; None across clouds."""
        rows = []
        for i, a in enumerate(y.tolist()):
            row = []
            for j, b in enumerate(x.tolist()):
                same = batch_x is None or batch_x[j] == batch_y[i]
                d2 = sum((p - q) ** 2 for p, q in zip(a, b, strict=True))
                row.append(d2 if same else None)
            rows.append(row)
        return rows

    @classmethod
    def knn(cls, x, y, k, batch_x=None, batch_y=None):
        """Edges as lists of pairs."""
        found = []
        for i, row in enumerate(cls.squares(y, x, batch_y, batch_x)):
            near = sorted((d2, j) for j, d2 in enumerate(row) if d2 is not None)[:k]
            found += [(i, j) for _, j in near]
        return found

    @classmethod
    def radius(cls, x, y, r2, batch_x=None, batch_y=None, limit=None, skip_same=False):
        """Edges as lists of pairs; r2 is the square."""
        found = []
        for i, row in enumerate(cls.squares(y, x, batch_y, batch_x)):
            inside = [j for j, d2 in enumerate(row) if d2 is not None and d2 < r2]
            inside = [j for j in inside if not (skip_same and i == j)]
            found += [(i, j) for j in inside[:limit]]
        return found

    @classmethod
    def fps(cls, x, count, start=0):
        """Picks of one cloud, the lowest of equally far points."""
        squares = cls.squares(x, x)
        picks, nearest = [], [float("inf")] * len(squares)
        for _ in range(count):
            picks.append(nearest.index(max(nearest)) if picks else start)
            nearest = [min(a, b) for a, b in zip(nearest, squares[picks[-1]], strict=True)]
        return picks


@pytest.fixture
def exact():
    """Brute force."""
    return Exact


@pytest.fixture
def pairs():
    """Edges [2, E] as a list of pairs; checks what every result has."""

    def listed(edges):
        assert edges.dtype == torch.int64
        assert edges.dim() == 2
        assert len(edges) == 2
        assert edges.is_contiguous()
        assert not edges.requires_grad
        return [tuple(pair) for pair in edges.t().tolist()]

    return listed


# clouds of 33 and 40 rows: none, one, several with gaps, some missing on either side
BATCHES = {
    "none": (None, None),
    "one": ([0] * 33, [0] * 40),
    "three": ([0] * 10 + [1] * 3 + [2] * 20, [0] * 1 + [1] * 30 + [2] * 9),
    "gaps": ([0] * 10 + [3] * 3 + [7] * 20, [3] * 31 + [7] * 9),
    "missing": ([1] * 10 + [2] * 23, [0] * 4 + [2] * 30 + [3] * 6),
}


@pytest.fixture(params=BATCHES)
def batches(request, device):
    """Batch vectors of 33 and 40 rows on the device."""
    return [None if b is None else torch.tensor(b, device=device) for b in BATCHES[request.param]]
