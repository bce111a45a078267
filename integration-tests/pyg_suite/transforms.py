"""Transforms of point clouds whose tensors are on the device."""

import pytest
import torch
from pyg_compare import clouds, same
from torch_geometric.data import Data
from torch_geometric.transforms import Compose, FixedPoints, GridSampling, KNNGraph, RadiusGraph


@pytest.fixture
def data():
    pos = clouds((60,))[0]
    return Data(pos=pos, x=pos.sin(), y=(pos[:, 0] * 4).long())


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("force_undirected", [False, True])
def test_knn_graph(data, loop, force_undirected):
    # 180 edges, 256 at most: PyG sorts them as int64 when it makes the graph undirected
    transform = KNNGraph(k=2, loop=loop, force_undirected=force_undirected)
    out = same(transform, data)
    assert out.edge_index.shape[1] >= 120 - 60 * loop


def test_radius_graph(data):
    out = same(RadiusGraph(r=0.3, max_num_neighbors=4), data)
    assert out.edge_index[1].bincount().max() == 4


@pytest.mark.parametrize("size", [0.3, [0.2, 0.3, 0.5]])
def test_grid_sampling(data, size):
    out = same(GridSampling(size), data)
    assert 10 < out.num_nodes < 60
    assert out.y.max() == 3


@pytest.mark.parametrize("replace", [False, True])
def test_fixed_points_then_graph(data, replace, monkeypatch):
    """Its choice comes from the host's generators: the same seed, the same points."""
    import numpy as np

    def chosen(data):
        np.random.seed(5)  # noqa: NPY002, PyG draws from here
        torch.manual_seed(5)
        return Compose([FixedPoints(30, replace=replace), KNNGraph(k=4)])(data)

    out = same(chosen, data)
    assert out.num_nodes == 30
    assert len(out.pos.unique(dim=0)) == 30 or replace
