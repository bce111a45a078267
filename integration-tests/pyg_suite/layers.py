"""Layers of `torch_geometric.nn` that search points, and those that users put around a search."""

import pytest
import torch
from pyg_compare import clouds, features, same, same_model
from torch_geometric.nn import (
    MLP,
    DynamicEdgeConv,
    EdgeConv,
    GravNetConv,
    PointNetConv,
    PointTransformerConv,
    XConv,
    knn_graph,
    knn_interpolate,
    radius_graph,
)


@pytest.fixture
def pos():
    return clouds()[0]


@pytest.fixture
def batch():
    return clouds()[1]


@pytest.mark.parametrize("channels", [3, 24])
def test_dynamic_edge_conv(batch, channels):
    x = features(len(batch), channels)
    same_model(lambda: DynamicEdgeConv(MLP([2 * channels, 16, 8]), k=6), x, batch)


def test_dynamic_edge_conv_without_batch(pos):
    x = features(len(pos), 5)
    same_model(lambda: DynamicEdgeConv(MLP([10, 8]), k=4, aggr="mean"), x)


def test_dynamic_edge_conv_of_two_sets(batch):
    few = clouds((9, 0, 14, 10))[1]
    x = (features(len(batch), 5), features(len(few), 5, seed=2))

    class TwoSets(DynamicEdgeConv):
        def forward(self, x, y, batch_x, batch_y):
            return super().forward((x, y), (batch_x, batch_y))

    out = same_model(lambda: TwoSets(MLP([10, 8]), k=4), *x, batch, few)
    assert out.shape == (len(few), 8)


def test_gravnet_conv(batch):
    x = features(len(batch), 6)
    same_model(lambda: GravNetConv(6, 5, space_dimensions=4, propagate_dimensions=7, k=6), x, batch)


def test_gravnet_conv_of_two_sets(batch):
    few = clouds((9, 0, 14, 10))[1]
    x = (features(len(batch), 5), features(len(few), 5, seed=2))

    class TwoSets(GravNetConv):
        def forward(self, x, y, batch_x, batch_y):
            return super().forward((x, y), (batch_x, batch_y))

    out = same_model(lambda: TwoSets(5, 6, 3, 4, k=5), *x, batch, few)
    assert out.shape == (len(few), 6)


@pytest.mark.parametrize("dilation", [1, 3])
def test_x_conv(pos, batch, dilation):
    x = features(len(pos), 4)
    make = lambda: XConv(4, 8, dim=3, kernel_size=5, hidden_channels=6, dilation=dilation)  # noqa: E731
    same_model(make, x, pos, batch)


def test_point_transformer_conv(pos, batch):
    class Block(PointTransformerConv):
        def forward(self, x, pos, batch):
            return super().forward(x, pos, knn_graph(pos, 6, batch))

    def make():
        return Block(4, 8, pos_nn=MLP([3, 8, 8], norm=None), attn_nn=MLP([8, 8], norm=None))

    same_model(make, features(len(pos), 4), pos.clone().requires_grad_(), batch)


def test_point_net_conv_on_a_radius_graph(pos, batch):
    class Block(PointNetConv):
        def forward(self, x, pos, batch):
            return super().forward(x, pos, radius_graph(pos, 0.3, batch, loop=True))

    positions = pos.clone().requires_grad_()
    same_model(lambda: Block(MLP([7, 8, 8])), features(len(pos), 4), positions, batch)


def test_edge_conv_on_a_graph_of_features(batch):
    class Block(EdgeConv):
        def forward(self, x, batch):
            return super().forward(x, knn_graph(x, 6, batch))

    same_model(lambda: Block(MLP([12, 8])), features(len(batch), 6), batch)


def test_knn_interpolate(pos, batch):
    coarse, few = clouds((9, 0, 14, 10), seed=4)
    x = features(len(few), 5)

    class Up(torch.nn.Linear):
        def forward(self, x, coarse, pos, few, batch):
            return knn_interpolate(super().forward(x), coarse, pos, few, batch, k=3)

    same_model(lambda: Up(5, 6), x, coarse, pos, few, batch)
    constant = same(knn_interpolate, torch.ones(len(few), 1), coarse, pos, few, batch)
    assert torch.allclose(constant, torch.ones(len(pos), 1))
