"""Pooling on clusters and graphs that were searched on the device."""

import pytest
import torch
from pyg_compare import clouds, features, on, same, same_model
from torch_geometric.data import Batch
from torch_geometric.nn import (
    ASAPooling,
    avg_pool,
    avg_pool_neighbor_x,
    avg_pool_x,
    knn_graph,
    max_pool,
    max_pool_neighbor_x,
    max_pool_x,
    voxel_grid,
)

# At most 256 edges: PyG sorts edge numbers as int64, which macOS gets wrong beyond that in
# PyTorch before 2.13.
SIZES = (18, 0, 12, 10)


@pytest.fixture
def graph():
    pos, batch = clouds(SIZES)
    edges = knn_graph(pos, 5, batch)
    assert edges.shape[1] <= 256
    rng = torch.Generator().manual_seed(3)
    return Batch(
        x=torch.randn(len(pos), 4, generator=rng),
        pos=pos,
        batch=batch,
        edge_index=edges,
        edge_attr=torch.randn(edges.shape[1], 2, generator=rng),
    )


@pytest.mark.parametrize("pool", [max_pool, avg_pool])
def test_pool_of_voxels(graph, pool):
    def pooled(data):
        return pool(voxel_grid(data.pos, 0.4, data.batch), data)

    coarse = same(pooled, graph)
    assert 10 < coarse.num_nodes < graph.num_nodes
    assert 0 < coarse.num_edges < graph.num_edges
    assert sorted(coarse.batch.unique().tolist()) == [0, 2, 3]


@pytest.mark.parametrize("pool", [max_pool_x, avg_pool_x])
def test_pool_of_features(graph, pool):
    def pooled(pos, batch, x):
        return pool(voxel_grid(pos, 0.4, batch), x, batch)

    x, batch = same(pooled, graph.pos, graph.batch, graph.x)
    assert x.shape[0] == batch.shape[0] < graph.num_nodes


@pytest.mark.parametrize("pool", [max_pool_x, avg_pool_x])
def test_gradient_of_pooled_features(graph, pool):
    class Pooled(torch.nn.Linear):
        def forward(self, x, pos, batch):
            return pool(voxel_grid(pos, 0.4, batch), super().forward(x), batch)[0]

    same_model(lambda: Pooled(4, 3), features(len(graph.x), 4), graph.pos, graph.batch)


@pytest.mark.parametrize("pool", [max_pool_neighbor_x, avg_pool_neighbor_x])
def test_pool_of_neighbours(graph, pool):
    def pooled(data):
        data.edge_index = knn_graph(data.pos, 5, data.batch)
        return pool(data).x

    x = same(pooled, graph)
    assert not torch.equal(x, graph.x)


class Asap(torch.nn.Linear):
    """ASAPooling between a graph that was searched on the device and its further use there.

    The pooling itself coarsens with sparse matrices, for which PyTorch has no kernels on MPS: it is
    kept and called on the host.
    """

    def __init__(self):
        super().__init__(4, 4)
        self.pool = [ASAPooling(4, ratio=0.5)]  # in a list: not moved with the module

    def forward(self, x, pos, batch):
        x, edges = super().forward(x), knn_graph(pos, 5, batch)
        x, edges, _, batch, kept = self.pool[0](x.cpu(), edges.cpu(), batch=batch.cpu())
        return tuple(t.to(pos.device) for t in (x, edges, batch, kept))


# what torch says of sparse tensors at their first use in a process
@pytest.mark.filterwarnings("ignore:Sparse (CSR tensor support|invariant checks):UserWarning")
def test_asap_pooling(graph):
    out = same_model(Asap, features(len(graph.x), 4), graph.pos, graph.batch)
    assert len(out[0]) == 9 + 6 + 5


@pytest.mark.filterwarnings("ignore:Sparse (CSR tensor support|invariant checks):UserWarning")
def test_asap_pooling_needs_sparse_matrices(graph):
    """A limit of PyTorch on a Mac, not of the search: it ends in the first sparse matrix."""
    data = on(graph, "mps")
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)csr|compressed"):
        ASAPooling(4).to("mps")(data.x, data.edge_index, batch=data.batch)
