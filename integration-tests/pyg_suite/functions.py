"""The functions of `torch_geometric.nn` that search points: MPS as CPU, and both as brute force."""

import pytest
import torch
from pyg_compare import clouds, same, squared_distances
from torch_geometric.nn import (
    fps,
    graclus,
    knn,
    knn_graph,
    nearest,
    radius,
    radius_graph,
    voxel_grid,
)
from torch_geometric.utils import to_undirected

SIZES = {
    "one": (90,),
    "three": (40, 57, 31),
    "gap": (40, 0, 57, 31),
    "first is empty": (0, 50, 33),
    "small": (1, 2, 33),
}


@pytest.fixture(params=SIZES)
def pair(request):
    """Points and queries with their batch vectors, without one where there is one cloud."""
    sizes = SIZES[request.param]
    x, batch_x = clouds(sizes, seed=0)
    y, batch_y = clouds(tuple(-(-size // 3) for size in sizes), seed=1)
    if len(sizes) == 1:
        return x, y, None, None
    return x, y, batch_x, batch_y


@pytest.fixture
def cloud(pair):
    """The points alone."""
    return pair[0], pair[2]


def lists(edges, rows, by=0):
    found = [[] for _ in range(rows)]
    for edge in edges.T.tolist():
        found[edge[by]].append(edge[1 - by])
    return found


def by_distance(d2, k):
    order = d2.argsort(dim=1, stable=True)
    return [
        [i for i in row[:k].tolist() if d < torch.inf and d2[m, i] < torch.inf]
        for m, row in enumerate(order)
        for d in [d2[m].min()]
    ]


def within(d2, r, most):
    return [(row < r * r).nonzero().flatten()[:most].tolist() for row in d2]


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
def test_knn(pair, dim):
    x, y, batch_x, batch_y = pair
    x, y = (torch.cat([points, points.sin() * 3, points.cos()], 1)[:, :dim] for points in (x, y))
    edges = same(lambda x, y, bx, by: knn(x, y, 5, bx, by), x, y, batch_x, batch_y)
    assert lists(edges, len(y)) == by_distance(squared_distances(x, y, batch_x, batch_y), 5)
    assert bool((edges[0].diff() >= 0).all())


def test_knn_cosine(pair):
    x, y, batch_x, batch_y = pair
    edges = same(lambda x, y, bx, by: knn(x, y, 4, bx, by, cosine=True), x, y, batch_x, batch_y)
    x, y = x / x.norm(dim=1, keepdim=True), y / y.norm(dim=1, keepdim=True)
    assert lists(edges, len(y)) == by_distance(squared_distances(x, y, batch_x, batch_y), 4)


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_knn_graph(cloud, loop, flow):
    x, batch = cloud
    edges = same(lambda x, b: knn_graph(x, 6, b, loop=loop, flow=flow), x, batch)
    d2 = squared_distances(x, x, batch, batch)
    if not loop:
        d2.fill_diagonal_(torch.inf)
    center = 1 if flow == "source_to_target" else 0
    assert lists(edges, len(x), by=center) == by_distance(d2, 6)


@pytest.mark.parametrize("most", [3, 32])
def test_radius(pair, most):
    x, y, batch_x, batch_y = pair
    call = lambda x, y, bx, by: radius(x, y, 0.4, bx, by, max_num_neighbors=most)  # noqa: E731
    edges = same(call, x, y, batch_x, batch_y)
    d2 = squared_distances(x, y, batch_x, batch_y)
    assert lists(edges, len(y)) == within(d2, 0.4, most)


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_radius_graph(cloud, loop, flow):
    x, batch = cloud
    call = lambda x, b: radius_graph(x, 0.35, b, loop=loop, max_num_neighbors=4, flow=flow)  # noqa: E731
    edges = same(call, x, batch)
    d2 = squared_distances(x, x, batch, batch)
    if not loop:
        d2.fill_diagonal_(torch.inf)
    center = 1 if flow == "source_to_target" else 0
    assert lists(edges, len(x), by=center) == within(d2, 0.35, 4)


def farthest(points, count):
    """The first point, then always the one farthest from those taken."""
    picks, d2 = [0], squared_distances(points, points)
    nearest = d2[0]
    for _ in range(count - 1):
        picks.append(int(nearest.argmax()))
        nearest = torch.minimum(nearest, d2[picks[-1]])
    return picks


def test_fps(cloud):
    x, batch = cloud
    picks = same(lambda x, b: fps(x, b, ratio=0.4, random_start=False), x, batch)
    wanted = []
    for number in [None] if batch is None else batch.unique().tolist():
        rows = torch.arange(len(x)) if number is None else (batch == number).nonzero().flatten()
        count = -(-len(rows) * 2 // 5)
        wanted += rows[farthest(x[rows], count)].tolist()
    assert picks.tolist() == wanted


def test_fps_from_a_random_start(cloud):
    """Other starts from another seed, the same from the same, and a valid order from each."""
    x, batch = (t if t is None else t.to("mps") for t in cloud)
    seen = set()
    for seed in (1, 2, 3, 1):
        torch.manual_seed(seed)
        picks = fps(x, batch, ratio=0.3)
        assert picks.device.type == "mps"
        assert len(picks.cpu().unique()) == len(picks)
        seen.add(tuple(picks.tolist()))
    assert 1 < len(seen) <= 3


def test_nearest(pair):
    """Every x gets its nearest y of the same cloud."""
    x, y, batch_x, batch_y = pair
    found = same(nearest, x, y, batch_x, batch_y)
    assert found.tolist() == squared_distances(y, x, batch_y, batch_x).argmin(1).tolist()


def partition(labels):
    """The clusters as sets of rows, whatever their numbers are."""
    sets = {}
    for row, label in enumerate(labels):
        sets.setdefault(label, set()).add(row)
    return {frozenset(rows) for rows in sets.values()}


def test_voxel_grid(cloud):
    x, batch = cloud
    cluster = same(lambda x, b: voxel_grid(x, 0.25, b), x, batch)
    cells = ((x - x.min(0).values) / 0.25).int()
    number = torch.zeros(len(x), 1, dtype=torch.int32) if batch is None else batch[:, None]
    assert partition(cluster.tolist()) == partition(
        map(tuple, torch.cat([cells, number], 1).tolist())
    )


def test_voxel_grid_with_bounds(cloud):
    x, batch = cloud
    cluster = same(lambda x, b: voxel_grid(x, [0.2, 0.3, 0.5], b, 0.0, [1.0, 1.0, 1.0]), x, batch)
    cells = (x / torch.tensor([0.2, 0.3, 0.5])).int()
    # 1 // size cells and the one of the end itself in each dimension
    number = cells[:, 0] + 6 * (cells[:, 1] + 4 * cells[:, 2])
    if batch is not None:
        number = number + 6 * 4 * 3 * batch
    assert cluster.tolist() == number.tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_graclus(weighted):
    """A maximal matching: of neighbours, and no two of the unmatched are neighbours."""
    edges = to_undirected(torch.tensor([[0, 1, 2, 3, 3, 5, 6, 6], [1, 2, 3, 4, 5, 6, 0, 2]]))
    weight = None
    if weighted:
        weight = 1.0 + (edges[0] * edges[1] % 5)
    neighbours = set(map(tuple, edges.T.tolist()))
    seen = set()
    for device in ("cpu", "mps"):
        for seed in (1, 2, 3, 1):
            torch.manual_seed(seed)
            given = None if weight is None else weight.to(device)
            cluster = graclus(edges.to(device), given, num_nodes=8)
            assert cluster.device.type == device
            groups = partition(cluster.tolist())
            pairs = [tuple(sorted(group)) for group in groups if len(group) == 2]
            alone = [next(iter(group)) for group in groups if len(group) == 1]
            assert 2 * len(pairs) + len(alone) == 8
            assert neighbours.issuperset(pairs)
            assert not any((a, b) in neighbours for a in alone for b in alone)
            seen.add((device, seed, tuple(cluster.tolist())))
    assert len(seen) == 6  # the same seed, the same matching
