"""The matching of an ordered list of edges: both devices against the loop over the list."""

import pytest
import torch

import mps_emulator
from mps_pointops.ops.graclus_cluster import cpu, mps
from mps_pointops.ops.graclus_cluster.graclus_cluster import greedy_matching
from mps_pointops.ops.graclus_cluster.reference import greedy_matching_reference
from pointops_testing import assert_same_bits

SIZES = (0, 1, 2, 31, 32, 33, 1023, 1025)
MODES = [(False, 310), (True, 310), (True, 320)]

needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real GPU cannot be told how to run"
)


def _random(nodes, edges, seed=0):
    rng = torch.Generator().manual_seed(seed * 7919 + nodes + edges)
    return torch.randint(nodes, (2, edges), generator=rng) if nodes else torch.zeros(2, 0).long()


def _path(nodes):
    """Each edge is before the next one: rounds of one match each."""
    first = torch.arange(nodes - 1)
    return torch.stack((first, first + 1))


def _star(leaves):
    return torch.stack((torch.zeros(leaves, dtype=torch.int64), torch.arange(1, leaves + 1)))


def _stars(hubs, leaves):
    """Hubs in a path, each with leaves that come later."""
    spokes = torch.stack(
        (torch.arange(hubs).repeat_interleave(leaves), hubs + torch.arange(hubs * leaves))
    )
    return torch.cat((_path(hubs), spokes), dim=1)


def _complete(nodes):
    pairs = torch.combinations(torch.arange(nodes)).t()
    return pairs[:, torch.randperm(pairs.shape[1], generator=torch.Generator().manual_seed(1))]


GRAPHS = {
    "path": (_path(500), 500),
    "path from the end": (_path(500).flip(1), 500),
    "path, other direction": (_path(501).flip(0), 501),
    "both directions": (torch.cat((_path(400), _path(400).flip(0)), dim=1), 400),
    "paths": (torch.cat([_path(20) + 20 * n for n in range(40)], dim=1), 800),
    "star": (_star(1500), 1501),
    "stars": (_stars(30, 40), 1230),
    "complete": (_complete(70), 70),
    "duplicates": (_random(12, 2000), 12),
    "one edge, often": (torch.tensor([[3], [1]]).expand(2, 3000), 5),
    "loops": (torch.arange(600).repeat(2, 1), 600),
    "loops and edges": (torch.cat((torch.arange(90).repeat(2, 1), _random(90, 200)), 1), 90),
    "lone nodes": (_random(40, 60), 3000),
}


def _check(device, edges, nodes, dtype=torch.int64):
    row, col = edges
    got = greedy_matching(row.to(device, dtype), col.to(device, dtype), nodes)
    assert got.device.type == device
    assert_same_bits(got, greedy_matching_reference(row, col, nodes))


@pytest.mark.parametrize("degree", [1, 4, 30])
@pytest.mark.parametrize("nodes", SIZES)
def test_random_graphs(device, nodes, degree):
    _check(device, _random(nodes, nodes * degree // 2 + 1), nodes)


@pytest.mark.parametrize("edges", [1, 31, 32, 33, 1023, 1024, 1025])
def test_numbers_of_edges(device, edges):
    _check(device, _random(300, edges), 300, torch.int32)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(device, name):
    _check(device, *GRAPHS[name])


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_rounds_of_the_whole_gpu(name, rounds, monkeypatch):
    """Whatever the number of wide rounds leaves, the finisher continues."""
    monkeypatch.setattr(mps, "NARROW", 0)
    monkeypatch.setattr(mps, "WIDE_ROUNDS", rounds)
    monkeypatch.setattr(mps, "MOST_GROUPS", 3)  # lists are longer than the grid
    _check("mps", *GRAPHS[name])


def test_larger_than_one_threadgroup_takes():
    _check("mps", _random(6000, 15000), 6000)


@pytest.mark.parametrize("name", GRAPHS)
def test_work_fits_its_bound(name, monkeypatch):
    """As many dispatches as the bound on all rounds allows, cut short, are enough."""
    monkeypatch.setattr(mps, "BUDGET", 97)
    monkeypatch.setattr(mps, "ROUND_COST", 1)
    _check("mps", *GRAPHS[name])


def test_a_spent_budget_stops_a_dispatch(monkeypatch):
    launches = []

    def counted(*arguments, **grid):
        launches.append(grid)
        if len(launches) < 4:  # to prepare, and two of the dispatches that finish
            launch(*arguments, **grid)

    launch = mps.launch
    monkeypatch.setattr(mps, "launch", counted)
    monkeypatch.setattr(mps, "BUDGET", 500)
    row, col = _path(500).to("mps")
    got = greedy_matching(row, col, 500).cpu()
    wanted = greedy_matching_reference(row.cpu(), col.cpu(), 500)
    done = int((got != torch.arange(500)).sum())
    assert 2 <= done < 20
    assert torch.equal(got[: 2 * done], wanted[: 2 * done])
    most = 251 * mps.ROUND_COST + 500 + 2 * 499
    assert len(launches) == 1 + -(-most // 500)


def test_long_path(device):
    """Work follows the number of edges, not edges times rounds."""
    _check(device, _path(20_000), 20_000)


@pytest.mark.slow
def test_very_long_path(device):
    _check(device, _path(100_000), 100_000)


def test_rounds_on_the_cpu(monkeypatch):
    """The list is left to the loop at every stage, or never."""
    for worth in (1, 100, 10**9):
        monkeypatch.setattr(cpu, "_WORTH_A_ROUND", worth)
        for edges, nodes in (*GRAPHS.values(), (_random(1000, 9000), 1000)):
            _check("cpu", edges, nodes)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_ends_that_no_node_has(device, dtype):
    bad = torch.tensor([[0, -1, 4, 2, 2**31 - 1, 1], [3, 0, 5, -(2**31), 2, 2]])
    _check(device, bad, 4, dtype)
    if dtype == torch.int64:
        _check(device, torch.tensor([[2**32, 2**32 + 1, 0], [1, 0, -(2**32) + 1]]), 4)


def test_views(device):
    base = _random(50, 160)
    row, col = base.to(device)[:, ::2], base.to(device).t()[:80, :]
    got = greedy_matching(row[0], col[:, 1], 50)
    assert_same_bits(got, greedy_matching_reference(base[0, ::2], base[1, :80], 50))


@needs_emulator
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_orders_of_threads(name, seed, monkeypatch):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "seed", seed)
    _check("mps", *GRAPHS[name])
    monkeypatch.setattr(mps, "NARROW", 0)
    monkeypatch.setattr(mps, "WIDE_ROUNDS", 2)
    _check("mps", *GRAPHS[name])


@needs_emulator
@pytest.mark.parametrize(("fast", "version"), MODES)
def test_math_modes(fast, version, monkeypatch):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "fast_math", fast)
    monkeypatch.setattr(options, "metal_version", version)
    monkeypatch.setattr(mps.SOURCE, "_kernels", {})
    for name in ("stars", "complete", "path"):
        _check("mps", *GRAPHS[name])


@needs_emulator
def test_nothing_is_read_back():
    row, col = _random(6000, 9000).to("mps")
    with mps_emulator.count_readbacks() as counted:
        greedy_matching(row, col, 6000)
    assert counted.count == 0, counted


def test_opcheck(device):
    row, col = _random(9, 20).to(device)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(greedy_matching, (row, col, 9), test_utils=checks)
