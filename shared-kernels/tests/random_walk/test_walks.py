"""Random walks on both devices: the reference's bits, and the odds of node2vec."""

from collections import Counter

import pytest
import torch

import mps_emulator
from mps_pointops.ops.random_walk import cpu, graph, mps
from mps_pointops.ops.random_walk.random_walk import random_walk_seeded
from mps_pointops.ops.random_walk.reference import (
    ATTEMPTS,
    ONE,
    edge_weights,
    philox,
    random_walk_reference,
)
from pointops_testing import assert_same_bits

PARAMETERS = [(1, 1), (0.25, 4), (4, 0.25), (1e6, 1), (1, 1e6), (1e-9, 1), (1e-6, 1e-6), (3, 3)]
SEED = [7, 65535, 300, 12345]


def _random_graph(nodes, edges, seed=0):
    """Rows in order; duplicates, loops, nodes without edges."""
    rng = torch.Generator().manual_seed(seed)
    row = torch.randint(max(1, nodes - 2), (edges,), generator=rng)
    col = torch.randint(nodes, (edges,), generator=rng)
    row, col, _ = graph.sort_edges(row, col, nodes)
    return graph.row_begins(row, nodes), col


def _from_pairs(pairs, nodes):
    row, col = torch.tensor(sorted(pairs)).t()
    return graph.row_begins(row, nodes), col.contiguous()


def _tensors(device, rowptr, col, start, dtype=torch.int64):
    return [t.to(device, dtype) for t in (rowptr, col, start)]


def _check(device, rowptr, col, start, length, p, q, dtype=torch.int64):
    seed = torch.tensor(SEED, dtype=torch.int32, device=device)
    tensors = _tensors(device, rowptr, col, start, dtype)
    nodes, edges = random_walk_seeded(*tensors, length, p, q, seed)
    wanted = random_walk_reference(
        rowptr.tolist(), col.tolist(), start.tolist(), length, p, q, SEED
    )
    for got, lists, width in ((nodes, wanted[0], length + 1), (edges, wanted[1], length)):
        assert got.device.type == device
        assert got.is_contiguous()
        assert_same_bits(got, torch.tensor(lists, dtype=torch.int64).view(len(start), width))


def test_philox_is_the_published_generator():
    """Known answers of Philox4x32-10."""
    ones = (2**32 - 1,) * 4
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox((0,) * 4, (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox(ones, ones[:2]) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    assert philox(pi, (0xA4093822, 0x299F31D0)) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def test_weights():
    assert edge_weights(1, 1) == (ONE, ONE, ONE)
    assert edge_weights(2, 0.5) == (ONE // 4, ONE // 2, ONE)
    assert edge_weights(0.5, 4) == (ONE, ONE // 2, ONE // 8)
    assert edge_weights(float("inf"), 1) == (1, ONE, ONE)
    assert edge_weights(5e-324, 1e300) == (ONE, 1, 1)


@pytest.mark.parametrize("walks", [0, 1, 31, 33, 257])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_sizes(device, walks, length):
    rowptr, col = _random_graph(30, 150)
    start = torch.arange(walks) % 30
    _check(device, rowptr, col, start, length, 1, 1)
    _check(device, rowptr, col, start, length, 0.5, 2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize(("p", "q"), PARAMETERS)
def test_equals_the_reference(device, p, q, dtype):
    rowptr, col = _random_graph(30, 150)
    start = torch.randint(30, (70,), generator=torch.Generator().manual_seed(1))
    _check(device, rowptr, col, start, 12, p, q, dtype)


@pytest.mark.parametrize(("p", "q"), PARAMETERS)
@pytest.mark.parametrize("spokes", [1, 2, 60])
def test_star(device, p, q, spokes):
    """Every other step is at the centre, where no neighbour is shared."""
    pairs = [(0, i) for i in range(1, spokes + 1)] + [(i, 0) for i in range(1, spokes + 1)]
    rowptr, col = _from_pairs(pairs, spokes + 1)
    _check(device, rowptr, col, torch.arange(spokes + 1), 6, p, q)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.1, 10), (10, 0.1)])
def test_many_edges_between_two_nodes(device, p, q):
    """Rows that lead back only: every edge has the same weight."""
    rowptr, col = _from_pairs([(0, 1)] * 9 + [(1, 0)] * 7 + [(1, 1)] * 2, 2)
    _check(device, rowptr, col, torch.tensor([0, 1] * 20), 9, p, q)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.1, 10)])
@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (1, 0), (3, 0), (1, 1), (1, 5)])
def test_small_graphs(device, nodes, edges, p, q):
    zeros = torch.zeros(edges, dtype=torch.int64)
    rowptr = torch.tensor([0] + [edges] * nodes)
    _check(device, rowptr, zeros, torch.zeros(4 if nodes else 0, dtype=torch.int64), 3, p, q)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 2)])
def test_nodes_outside_end_a_walk(device, p, q):
    """What the operators refuse on the CPU, and on MPS cannot know."""
    targets = [0, 5, -2, 1] if device == "mps" else [0, 1, 0, 1]
    rowptr, col = torch.tensor([0, 2, 4]), torch.tensor(targets)
    start = torch.tensor([0, 1, 2, -1, 2**40, -(2**40)] * 5)
    _check(device, rowptr, col, start, 6, p, q)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 2)])
def test_walks_are_continued_by_later_dispatches(monkeypatch, p, q):
    monkeypatch.setattr(mps, "STEPS_UNIFORM", 4)
    monkeypatch.setattr(mps, "STEPS_WEIGHTED", 3)
    monkeypatch.setattr(mps, "STEPS_PER_DISPATCH", 256 * 3)
    rowptr, col = _random_graph(30, 150)
    _check("mps", rowptr, col, torch.arange(600) % 30, 11, p, q)


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a real GPU cannot be told how to run")
@pytest.mark.parametrize(("fast", "version"), [(False, 310), (True, 310), (True, 320)])
def test_math_modes(monkeypatch, fast, version):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "fast_math", fast)
    monkeypatch.setattr(options, "metal_version", version)
    monkeypatch.setattr(mps.SOURCE, "_kernels", {})
    rowptr, col = _random_graph(30, 150)
    for p, q in ((1, 1), (0.25, 4), (1, 1e6)):
        _check("mps", rowptr, col, torch.arange(40) % 30, 6, p, q)


@pytest.mark.parametrize("q", [float("inf"), 1e6])
def test_rows_of_least_weight(device, q):
    """No edge back, none near: all are rejected, and with an infinite q their sum is small."""
    rowptr, col = _from_pairs([(0, 1), *((1, i) for i in range(2, 6))], 6)
    _check(device, rowptr, col, torch.zeros(100, dtype=torch.int64), 2, 1, q)


def test_exact_choice_is_reached_and_cut(monkeypatch):
    """The choice after the last rejection, in blocks of one row, and how often it is needed."""
    seen = []
    chosen = cpu._chosen

    def counted(graph, begin, *rest):
        seen.append(len(begin))
        return chosen(graph, begin, *rest)

    monkeypatch.setattr(cpu, "_chosen", counted)
    monkeypatch.setattr(cpu, "_EDGES", 64)
    spokes = 60
    pairs = [(0, i) for i in range(1, spokes + 1)] + [(i, 0) for i in range(1, spokes + 1)]
    rowptr, col = _from_pairs(pairs, spokes + 1)
    start = torch.arange(1, spokes + 1)
    _check("cpu", rowptr, col, start, 2, 1, 1e6)
    rejected = (1 - 1 / spokes) ** ATTEMPTS
    assert 0.3 * rejected < sum(seen) / spokes < 2 * rejected
    assert len(seen) > 1
    seen.clear()
    # edges back are drawn apart, so that a large weight of theirs rejects nothing
    _check("cpu", rowptr, col, start, 2, 1e-6, 1)
    assert not seen


def _exact(pairs, before, node, p, q):
    """Probability of each next edge, as node2vec defines it."""
    targets = [b for a, b in sorted(pairs) if a == node]
    known = set(pairs)
    weight = [1 / p if x == before else 1.0 if (x, before) in known else 1 / q for x in targets]
    return torch.tensor(weight, dtype=torch.float64) / sum(weight)


def _p_value(counts, odds):
    """Of a chi-square test; outcomes too rare for it are counted together, or must be absent."""
    wanted = odds * counts.sum()
    rare = wanted < 5
    rest = wanted[rare].sum()
    if rest < 5:
        assert counts[rare].sum() <= rest + 12
    else:
        counts = torch.cat((counts[~rare], counts[rare].sum()[None]))
        wanted = torch.cat((wanted[~rare], rest[None]))
        rare = torch.zeros_like(wanted, dtype=torch.bool)
    statistic = ((counts - wanted) ** 2 / wanted)[~rare].sum()
    freedom = max(int((~rare).sum()) - 1, 1)
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


# 0: hub; 1 and 2 are neighbours of it and of each other; 3 only leads to it; 4 ... are leaves. The
# edge 0 -> 3 has none back, the edge 5 -> 1 makes 5 near 1 but not 1 near 5.
PAIRS = [
    *((0, i) for i in range(1, 24)),
    *((i, 0) for i in range(1, 24) if i != 3),
    *((1, 2), (2, 1), (5, 1), (0, 1), (0, 6), (4, 4), (4, 5), (5, 4), (1, 1)),
]


@pytest.mark.parametrize(("p", "q"), [*PARAMETERS[:5], (0.3, 0.1), (2, 30)])
def test_odds_are_those_of_node2vec(p, q):
    rowptr, col = _from_pairs(PAIRS, 24)
    start = torch.arange(24).repeat_interleave(2_000)
    nodes, edges = random_walk_seeded(rowptr, col, start, 2, p, q, torch.tensor(SEED))
    tested = 0
    for before in range(24):
        first = nodes[:, 0] == before
        degree = int(rowptr[before + 1] - rowptr[before])
        if degree > 1:
            counts = torch.bincount(edges[first, 0] - rowptr[before], minlength=degree).double()
            assert _p_value(counts, torch.full((degree,), 1 / degree, dtype=torch.float64)) > 1e-5
        for node in range(24):
            here = first & (nodes[:, 1] == node)
            degree = int(rowptr[node + 1] - rowptr[node])
            if degree < 2 or here.sum() < 100:
                continue
            counts = torch.bincount(edges[here, 1] - rowptr[node], minlength=degree).double()
            assert _p_value(counts, _exact(PAIRS, before, node, p, q)) > 1e-5, (before, node)
            tested += 1
    assert tested > 25


def test_seeds_and_walks_are_independent():
    """Equal walks under other numbers, steps or seeds are as frequent as chance has it."""
    rowptr, col = _from_pairs([(0, 0)] * 16, 1)
    start = torch.zeros(4096, dtype=torch.int64)
    _, first = random_walk_seeded(rowptr, col, start, 8, 1, 1, torch.tensor(SEED))
    _, other = random_walk_seeded(rowptr, col, start, 8, 1, 1, torch.tensor([8, *SEED[1:]]))
    for a, b in ((first, other), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        alike = (a == b).double().mean().item()
        assert abs(alike - 1 / 16) < 0.008
    assert len(Counter(map(tuple, first.tolist()))) == 4096
