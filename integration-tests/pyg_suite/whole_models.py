"""Whole models: forward and backward on MPS as on the CPU, on the same weights."""

import pyg_models
import pytest
import torch
from pyg_compare import clouds, features, same_model
from torch_geometric.nn import Node2Vec, SchNet


@pytest.fixture(params=["three", "gap"])
def cloud(request):
    return clouds((40, 57, 31) if request.param == "three" else (40, 0, 57, 31))


def test_point_net_2(cloud):
    pos, batch = cloud
    out = same_model(pyg_models.PointNet2, features(len(pos), 4), pos, batch)
    assert out.shape == (len(pos), 5)


def test_point_transformer(cloud):
    pos, batch = cloud
    same_model(pyg_models.PointTransformer, features(len(pos), 4), pos, batch)


def test_dgcnn(cloud):
    pos, batch = cloud
    out = same_model(pyg_models.DGCNN, pos.clone().requires_grad_(), batch)
    assert out.shape == (int(batch.max()) + 1, 5)


def test_point_cnn(cloud):
    same_model(pyg_models.PointCNN, *cloud)


def test_gravnet(cloud):
    batch = cloud[1]
    same_model(pyg_models.GravNet, features(len(batch), 4), batch)


def molecules():
    """Atoms with their numbers, two Angstrom or so apart."""
    pos, batch = clouds((12, 9, 15), seed=6)
    number = torch.arange(len(pos)) % 9 + 1
    return number, (pos * 5).requires_grad_(), batch


def test_schnet_and_its_forces():
    def make():
        return SchNet(16, 16, num_interactions=2, num_gaussians=10, cutoff=3.0, max_num_neighbors=6)

    energy = same_model(make, *molecules())
    assert energy.shape == (3, 1)


RING = torch.tensor([[*range(10), 0, 5], [*range(1, 10), 0, 5, 2]])


def walks(model, device):
    torch.manual_seed(4)
    positive, negative = model.sample(torch.arange(10))
    return positive.to(device), negative.to(device)


def test_node2vec():
    """Walks on the host, where PyG keeps its graph; the embedding on the device."""

    class Loss(Node2Vec):
        def forward(self, positive, negative):
            return self.loss(positive, negative)

    def make():
        return Loss(RING, 8, walk_length=6, context_size=4, walks_per_node=3, num_nodes=10)

    positive, negative = walks(make(), "cpu")
    assert positive.shape == (90, 4)
    edges = set(map(tuple, RING.T.tolist()))
    steps = torch.stack([positive[:, :-1], positive[:, 1:]], -1).flatten(0, 1)
    assert edges.issuperset(map(tuple, steps.tolist()))
    same_model(make, positive, negative)


def test_node2vec_learns():
    torch.manual_seed(0)
    model = Node2Vec(RING, 8, walk_length=6, context_size=4, walks_per_node=3, num_nodes=10)
    model = model.to("mps")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(20):
        for positive, negative in model.loader(batch_size=10, shuffle=False):
            optimizer.zero_grad()
            loss = model.loss(positive.to("mps"), negative.to("mps"))
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < sum(losses[:5])
