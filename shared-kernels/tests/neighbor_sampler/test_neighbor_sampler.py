"""Sampling of neighbours on the CPU."""

from collections import Counter
from itertools import combinations

import pytest
import torch

from mps_pointops.ops.neighbor_sampler import neighbor_sampler
from mps_pointops.ops.neighbor_sampler.cpu import draw, subset
from mps_pointops.ops.neighbor_sampler.reference import is_sample, sample_sizes

OP = torch.ops.mps_pointops.neighbor_sampler.default
ROWPTR = [0, 4, 4, 5, 37, 70, 1093]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("size", [1e-9, 0.1, 0.5, 0.7, 0.71, 1, 1.5, 2, 3, 22.4, 23, 32, 5000])
@pytest.mark.parametrize("start", [[], [0], [1], [5, 5], [4, 3, 2, 1, 0, 5, 3]])
def test_samples(start, size, dtype):
    rowptr = torch.tensor(ROWPTR, dtype=dtype)
    edges = neighbor_sampler(torch.tensor(start, dtype=dtype), rowptr, size)
    assert edges.dtype == torch.int64
    assert edges.is_contiguous()
    assert is_sample(edges.tolist(), start, ROWPTR, size)


def test_sizes():
    assert sample_sizes([0, 1, 2, 3], ROWPTR, 0.5) == [2, 0, 1, 16]
    assert sample_sizes([0, 1, 2, 3], ROWPTR, 1) == [4, 0, 1, 32]
    assert sample_sizes([0, 1, 2, 3], ROWPTR, 2) == [2, 0, 1, 2]
    assert not is_sample([0, 0], [0], ROWPTR, 2)
    assert not is_sample([0, 4], [0], ROWPTR, 2)
    assert not is_sample([0, 1, 2], [0], ROWPTR, 2)


@pytest.mark.parametrize(("size", "start"), [(1, [3, 4, 0]), (3, [0, 2, 0]), (31, [3, 1, 4])])
def test_large_parts_are_permutations(size, start):
    """From 0.7 of a degree on one randperm a node, in order: torch_cluster's random numbers."""
    torch.manual_seed(21)
    edges = neighbor_sampler(torch.tensor(start), torch.tensor(ROWPTR), size)
    torch.manual_seed(21)
    wanted = []
    for node, count in zip(start, sample_sizes(start, ROWPTR, size), strict=True):
        degree = ROWPTR[node + 1] - ROWPTR[node]
        wanted += (torch.randperm(degree)[:count] + ROWPTR[node]).tolist()
    assert edges.tolist() == wanted


@pytest.mark.parametrize(("count", "permuted"), [(6, False), (7, True)])
def test_permutations_begin_at_seven_tenths(count, permuted):
    torch.manual_seed(4)
    wanted = torch.randperm(10)[:count].tolist()
    torch.manual_seed(4)
    edges = neighbor_sampler(torch.tensor([0]), torch.tensor([0, 10]), count).tolist()
    assert wanted != sorted(wanted)
    assert edges == (wanted if permuted else sorted(edges))


def test_other_nodes_do_not_change_permutations():
    rowptr = torch.tensor(ROWPTR)
    torch.manual_seed(3)
    alone = neighbor_sampler(torch.tensor([3, 0]), rowptr, 30)
    torch.manual_seed(3)
    between = neighbor_sampler(torch.tensor([5, 3, 5, 0]), rowptr, 30)
    assert torch.equal(alone, torch.cat((between[30:60], between[90:])))


def test_manual_seed_repeats():
    start, rowptr = torch.tensor([5, 3]), torch.tensor(ROWPTR)
    torch.manual_seed(1)
    first, second = (neighbor_sampler(start, rowptr, 5) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(neighbor_sampler(start, rowptr, 5), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("size", "count"), [(5, 2), (6, 3), (7, 1)])
def test_subsets_are_equally_frequent(size, count):
    torch.manual_seed(0)
    draws = 6000
    found = Counter(tuple(subset(size, draw(count))) for _ in range(draws))
    subsets = list(combinations(range(size), count))
    wanted = draws / len(subsets)
    assert set(found) == set(subsets)
    statistic = sum((found[s] - wanted) ** 2 / wanted for s in subsets)
    freedom = len(subsets) - 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(
    ("start", "rowptr", "size", "error", "message"),
    [
        ([0], [0, 1], 2, TypeError, "start must be a torch.Tensor, got list"),
        (torch.tensor([0.0]), torch.tensor([0, 1]), 2, TypeError, "start must be int64 or int32"),
        (torch.tensor(0), torch.tensor([0, 1]), 2, ValueError, "start must be a tensor of one"),
        (torch.tensor([0]), torch.tensor([[0, 1]]), 2, ValueError, "rowptr must be a tensor of"),
        (torch.tensor([0]), torch.tensor([]).long(), 2, ValueError, r"of shape \[N \+ 1\]"),
        (torch.tensor([0]), torch.tensor([0, 2, 1]), 2, ValueError, "values that descend"),
        (torch.tensor([0]), torch.tensor([2, 3]), 2, ValueError, "a first value of 2"),
        (torch.tensor([1]), torch.tensor([0, 1]), 2, IndexError, "start must be from 0 to 0"),
        (torch.tensor([-1]), torch.tensor([0, 1]), 2, IndexError, "got -1"),
        (torch.tensor([0]), torch.tensor([0, 1]), 0, ValueError, "size must be positive"),
        (torch.tensor([0]), torch.tensor([0, 1]), -2, ValueError, "size must be positive"),
        (torch.tensor([0]), torch.tensor([0, 1]), float("nan"), ValueError, "size must be"),
        (torch.tensor([0]), torch.tensor([0, 1]), float("inf"), ValueError, "size must be"),
        (torch.tensor([0]), torch.tensor([0, 1]), "2", TypeError, "size must be a number"),
    ],
)
def test_errors(start, rowptr, size, error, message):
    with pytest.raises(error, match=message) as raised:
        neighbor_sampler(start, rowptr, size)
    assert str(raised.value).startswith("neighbor_sampler: ")


@pytest.mark.parametrize("moved", ["start", "rowptr", "both"])
def test_mps_is_refused(moved):
    start, rowptr = torch.tensor([0]), torch.tensor(ROWPTR)
    start = start if moved == "rowptr" else start.to("mps")
    rowptr = rowptr if moved == "start" else rowptr.to("mps")
    with pytest.raises(ValueError, match=r"must be on the CPU, got device mps.*\.cpu\(\)"):
        neighbor_sampler(start, rowptr, 2)


def test_operator():
    start, rowptr = torch.tensor([3, 0]), torch.tensor(ROWPTR)
    assert OP(start, rowptr, 0, 0.0).tolist() == []
    assert is_sample(OP(start, rowptr, 3, -1.0).tolist(), [3, 0], ROWPTR, 3)
    assert len(OP(start, rowptr, -1, 7.0)) == 36
    with pytest.raises(ValueError, match="factor must be finite and not negative"):
        OP(start, rowptr, 0, -1.0)
    one = torch.arange(7)  # one edge a node: nothing is random
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(OP, (start, one, 1, -1.0), test_utils=checks)
    assert torch.Tag.nondeterministic_seeded in OP.tags


def test_compile_fullgraph():
    def sample(start, rowptr):
        return neighbor_sampler(start, rowptr, 1) + 1

    compiled = torch.compile(sample, backend="aot_eager", fullgraph=True)
    rowptr = torch.tensor(ROWPTR)
    for start in (torch.tensor([3, 0]), torch.tensor([2])):
        torch.manual_seed(0)
        wanted = sample(start, rowptr)
        torch.manual_seed(0)
        assert torch.equal(compiled(start, rowptr), wanted)
