"""How repositories call torch_cluster: code of our own in the shape of theirs.

Each class or function is what such a repository has; the tests compare it with plain torch.
"""

import pytest
import torch
from torch import nn

import torch_cluster
from pointops_testing import assert_same_bits
from torch_cluster import fps, knn, knn_graph, radius, radius_graph


def _squares(a, b):
    return (a.detach().cpu().double()[:, None] - b.detach().cpu().double()[None]).square().sum(2)


def _same_cloud(a, b):
    return a.cpu()[:, None] == b.cpu()[None]


@pytest.fixture
def atoms(device):
    """Three molecules of different sizes, positions in angstrom."""
    rng = torch.Generator().manual_seed(0)
    batch = torch.tensor([0] * 17 + [1] * 60 + [2] * 33)
    return (torch.randn(110, 3, generator=rng) * 3).to(device), batch.to(device)


def test_diffdock_edges(device, atoms):
    """DiffDock: within the ligand, and from ligand to receptor with a cutoff for each complex."""
    receptor, receptor_batch = atoms
    rng = torch.Generator().manual_seed(1)
    ligand = torch.randn(24, 3, generator=rng).to(device)
    ligand_batch = torch.tensor([0] * 9 + [1] * 5 + [2] * 10, device=device)
    edges = radius_graph(ligand, 2.5, ligand_batch)
    inside = (_squares(ligand, ligand) < 2.5**2) & _same_cloud(ligand_batch, ligand_batch)
    inside.fill_diagonal_(False)
    assert_same_bits(edges.flip([0]), inside.nonzero().t())  # at most 9 neighbours

    cutoff = torch.tensor([[2.0], [4.0], [3.0]], device=device)
    cross = radius(
        receptor / cutoff[receptor_batch],
        ligand / cutoff[ligand_batch],
        1,
        receptor_batch,
        ligand_batch,
        max_num_neighbors=10000,
    )
    scaled = cutoff.cpu().double()[ligand_batch.cpu()] ** 2
    wanted = (_squares(ligand, receptor) < scaled) & _same_cloud(ligand_batch, receptor_batch)
    assert_same_bits(cross, wanted.nonzero().t())
    assert cross.device.type == device


class Potential(nn.Module):
    """equiformer, SchNet-like and e3nn models: energy of pairs, forces by autograd."""

    def __init__(self, cutoff, neighbours):
        super().__init__()
        self.cutoff, self.neighbours = cutoff, neighbours
        self.mix = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, pos, batch):
        edge_index = radius_graph(
            pos, r=self.cutoff, batch=batch, max_num_neighbors=self.neighbours
        )
        source, target = edge_index
        length = (pos[source] - pos[target]).norm(dim=1, keepdim=True)
        energy = self.mix(length) * (1 - length / self.cutoff) ** 2
        atoms = torch.zeros_like(pos[:, :1]).index_add(0, target, energy)
        return torch.zeros(3, 1, device=pos.device).index_add(0, batch, atoms), edge_index


@pytest.mark.parametrize("neighbours", [5, 1000])
def test_forces(device, atoms, neighbours):
    pos, batch = atoms
    pos = pos.clone().requires_grad_()
    torch.manual_seed(0)
    model = Potential(5.0, neighbours)
    energy, edges = model.to(device)(pos, batch)
    (force,) = torch.autograd.grad(-energy.sum(), pos)
    degree = edges[1].bincount(minlength=110).cpu()
    inside = (_squares(pos, pos) < 25) & _same_cloud(batch, batch)
    assert_same_bits(degree, (inside.sum(1) - 1).clamp(max=neighbours))
    # pairs push one another equally
    total = torch.zeros(3, 3, device=device).index_add(0, batch, force)
    assert float(total.abs().max()) < 1e-4 * float(force.abs().sum())
    if neighbours == 1000:  # plain torch, in pairs
        model.cpu().double()
        plain = pos.detach().cpu().double()
        first, second = (inside & ~torch.eye(110, dtype=torch.bool)).nonzero().t()
        length = (plain[first] - plain[second]).norm(dim=1, keepdim=True)
        wanted = (model.mix(length) * (1 - length / 5.0) ** 2).sum()
        torch.testing.assert_close(energy.sum().cpu().double(), wanted, rtol=1e-4, atol=1e-4)


def test_gvp_edges(device, atoms):
    """gvp: the 30 nearest residues, direction and radial basis on the edges."""
    coords, batch = atoms
    edge_index = knn_graph(coords, k=30, batch=batch)
    vectors = coords[edge_index[0]] - coords[edge_index[1]]
    unit = nn.functional.normalize(vectors, dim=1)
    centres = torch.linspace(0, 20, 16, device=device)
    basis = torch.exp(-((vectors.norm(dim=1)[:, None] - centres) ** 2))
    assert edge_index.shape == (2, 17 * 16 + 60 * 30 + 33 * 30)
    assert basis.shape == (edge_index.shape[1], 16)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones_like(unit[:, 0]))
    squares = _squares(coords, coords)
    squares[~_same_cloud(batch, batch)] = torch.inf
    squares.fill_diagonal_(-1)
    sizes = [16] * 17 + [30] * 93
    order = squares.argsort(dim=1)[:, 1:]
    wanted = torch.cat([row[:size] for row, size in zip(order, sizes, strict=True)])
    assert_same_bits(edge_index[0], wanted)


def _offsets_to_batch(offset):
    sizes = torch.diff(offset, prepend=offset.new_zeros(1))
    return torch.arange(len(offset), device=offset.device).repeat_interleave(sizes)


def test_pointcept_neighbours(device, atoms):
    """Pointcept: clouds by offsets, grid pooling, features interpolated from three neighbours."""
    pos, _ = atoms
    batch = _offsets_to_batch(torch.tensor([17, 77, 110], device=device))
    voxel = torch_cluster.grid_cluster(
        torch.cat((pos, batch[:, None].float()), 1), torch.tensor([2.0, 2, 2, 1], device=device)
    )
    _, cluster, count = voxel.cpu().unique(return_inverse=True, return_counts=True)
    cells = torch.floor((pos - pos.min(0).values).cpu() / 2)
    keys = torch.cat((cells, batch.cpu()[:, None].float()), 1)
    assert len(count) == len(keys.unique(dim=0))
    order = cluster.argsort(stable=True)
    first = torch.cat((torch.zeros(1, dtype=torch.int64), count.cumsum(0)[:-1]))
    head = order[first].sort().values.to(device)
    coarse, coarse_batch = pos[head], batch[head]

    edges = knn(coarse, pos, 3, coarse_batch, batch)
    query, near = edges
    weight = 1 / ((pos[query] - coarse[near]).square().sum(1, keepdim=True) + 1e-8)
    total = torch.zeros(110, 1, device=device).index_add(0, query, weight)
    smooth = torch.zeros(110, 3, device=device).index_add(0, query, weight * coarse[near]) / total
    torch.testing.assert_close(smooth[head], coarse, rtol=1e-3, atol=1e-3)

    squares = _squares(pos, coarse)
    squares[~_same_cloud(batch, coarse_batch)] = torch.inf
    wanted = squares.argsort(dim=1)[:, :3]
    assert_same_bits(near.view(-1, 3), wanted)


class Down(nn.Module):
    """torch-points3d and PointNet++ of PyG: sample, search, gather, reduce by the maximum."""

    def __init__(self, ratio, r):
        super().__init__()
        self.ratio, self.r = ratio, r
        self.lin = nn.Linear(3, 8)

    def forward(self, pos, batch):
        idx = fps(pos, batch, ratio=self.ratio, random_start=False)
        row, col = radius(
            pos, pos[idx], self.r, batch, batch[idx], max_num_neighbors=16, num_workers=4
        )
        message = self.lin(pos[col] - pos[idx][row])
        out = message.new_full((len(idx), 8), -100.0)
        return (
            out.scatter_reduce(0, row[:, None].expand_as(message), message, "amax"),
            pos[idx],
            batch[idx],
            (row, col),
        )


def test_torch_points3d_down(device, atoms):
    pos, batch = atoms
    torch.manual_seed(0)
    module = Down(0.25, 3.0).to(device)
    with torch.no_grad():
        out, centres, centre_batch, (row, col) = module(pos, batch)
    assert centre_batch.bincount().tolist() == [5, 15, 9]
    inside = (_squares(centres, pos) < 9) & _same_cloud(centre_batch, batch)
    for number, hits in enumerate(inside):
        assert col[row == number].tolist() == hits.nonzero().flatten()[:16].tolist()
        found = module.lin(pos[hits.nonzero().flatten()[:16].to(device)] - centres[number])
        torch.testing.assert_close(out[number], found.max(0).values, rtol=1e-5, atol=1e-5)


def _csr(row, nodes):
    return torch.cat((row.new_zeros(1), row.bincount(minlength=nodes).cumsum(0)))


def _ring(device, nodes):
    """Every node with its two neighbours, sorted by rows."""
    at = torch.arange(nodes)
    row = at.repeat_interleave(2)
    col = torch.stack(((at - 1) % nodes, (at + 1) % nodes), 1).sort(dim=1).values.flatten()
    return row.to(device), col.to(device)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.5, 2.0)])
def test_node2vec(device, p, q):
    """Node2Vec: the operator itself, windows over the walks, a loss."""
    row, col = _ring(device, 20)
    rowptr = _csr(row, 20)
    start = torch.arange(20, device=device).repeat(3)
    walks = torch.ops.torch_cluster.random_walk(rowptr, col, start, 8, p, q)[0]
    assert walks.shape == (60, 9)
    step = (walks[:, 1:] - walks[:, :-1]) % 20
    assert bool(((step == 1) | (step == 19)).all())
    windows = torch.cat([walks[:, n : n + 4] for n in range(6)])
    embedding = nn.Embedding(20, 6, device=device)
    first, rest = windows[:, 0], windows[:, 1:]
    score = (embedding(first).unsqueeze(1) * embedding(rest)).sum(2)
    loss = -nn.functional.logsigmoid(score).mean()
    loss.backward()
    assert bool((embedding.weight.grad.abs().sum(1) > 0).all())


def test_graphgym_like_sampling_and_pooling(device):
    """Sampled subgraphs on the host, a level of coarsening on the device."""
    row, col = _ring(device, 20)
    edges = torch_cluster.neighbor_sampler(torch.arange(5), _csr(row, 20).cpu(), 1.0)
    assert sorted(edges.tolist()) == list(range(10))
    cluster = torch_cluster.graclus_cluster(row, col, num_nodes=20)
    x = torch.arange(20.0, device=device)
    pooled = torch.zeros(20, device=device).index_add(0, cluster, x)
    assert float(pooled.sum()) == 190
    sizes = cluster.bincount(minlength=20)
    assert sizes.max().item() == 2
    single = (sizes == 1).nonzero().flatten().tolist()
    assert all((node + 1) % 20 not in single for node in single)


@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripted_model(device, atoms):
    """Models that are deployed as TorchScript."""
    pos, batch = atoms

    def pairs(pos: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        idx = fps(pos, batch, 0.5, False)
        edges = radius_graph(pos[idx], 4.0, batch[idx], max_num_neighbors=8)
        return (pos[idx][edges[0]] - pos[idx][edges[1]]).square().sum(1)

    scripted = torch.jit.script(pairs)
    assert_same_bits(scripted(pos, batch), pairs(pos, batch))
