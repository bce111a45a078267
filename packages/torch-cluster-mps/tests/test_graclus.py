"""`graclus_cluster`."""

import pytest
import torch

from torch_cluster import graclus_cluster


def _graph(nodes, edges, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(nodes, (2, edges), generator=rng)


def _check_matching(row, col, cluster, may_match=None):
    """Pairs of adjacent nodes, named by the smaller, and no edge between two single nodes."""
    may_match = [True] * len(row) if may_match is None else may_match
    edges = list(zip(row.tolist(), col.tolist(), may_match, strict=True))
    edges = {frozenset((u, v)) for u, v, fits in edges if fits and u != v}
    members = {}
    for node, name in enumerate(cluster.tolist()):
        members.setdefault(name, []).append(node)
    for name, nodes in members.items():
        assert name == nodes[0]
        assert len(nodes) == 1 or frozenset(nodes) in edges
    single = {nodes[0] for nodes in members.values() if len(nodes) == 1}
    assert not any(edge <= single for edge in edges)


@pytest.mark.parametrize("nodes", [1, 33, 300])
@pytest.mark.parametrize("both_ways", [False, True])
def test_unweighted(device, nodes, both_ways):
    row, col = _graph(nodes, nodes * 3)
    if both_ways:
        row, col = torch.cat((row, col)), torch.cat((col, row))
    cluster = graclus_cluster(row.to(device), col.to(device), num_nodes=nodes)
    assert cluster.dtype == torch.int64
    assert cluster.device.type == device
    assert cluster.shape == (nodes,)
    _check_matching(row, col, cluster)


def test_weights(device, dtype):
    row, col = _graph(40, 150)
    weight = torch.randint(-2, 9, (150,), generator=torch.Generator().manual_seed(1))
    cluster = graclus_cluster(row.to(device), col.to(device), weight.to(device, dtype))
    _check_matching(row, col, cluster, (weight >= 0).tolist())


def test_heavier_edges_first(device):
    """A path 0 - 1 - 2 - 3 whose middle is heaviest, in one direction and in both."""
    row, col = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3])
    weight = torch.tensor([1.0, 2.0, 1.0])
    for _ in range(3):
        cluster = graclus_cluster(row.to(device), col.to(device), weight.to(device))
        assert cluster.tolist() == [0, 1, 1, 3]
    both = [torch.cat((a, b)).to(device) for a, b in ((row, col), (col, row), (weight, weight))]
    assert graclus_cluster(*both).tolist() == [0, 1, 1, 3]


def test_seeds(device):
    row, col = (end.to(device) for end in _graph(50, 200))
    drawn = []
    for seed in (1, 1, 2, 3, 4):
        torch.manual_seed(seed)
        drawn.append(tuple(graclus_cluster(row, col).tolist()))
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_sizes(device):
    nothing = torch.empty(0, dtype=torch.int64, device=device)
    assert graclus_cluster(nothing, nothing).tolist() == []
    assert graclus_cluster(nothing, nothing, num_nodes=3).tolist() == [0, 1, 2]
    one = torch.tensor([1], device=device)
    assert graclus_cluster(one, one).tolist() == [0, 1]  # a self loop
    assert graclus_cluster(one, one + 1, None, 5).tolist() == [0, 1, 1, 3, 4]
    assert graclus_cluster(one.int(), one.int() - 1).tolist() == [0, 0]
