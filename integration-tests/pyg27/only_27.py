"""What PyG 2.7 asks of torch_cluster beyond the calls that it shares with later releases."""

import pytest
import torch
import torch_geometric
from pyg_compare import clouds, on, same
from torch_geometric.data import Data
from torch_geometric.nn import Node2Vec, fps, knn_graph, radius_graph
from torch_geometric.transforms import RootedRWSubgraph
from torch_geometric.utils import dropout_path, to_undirected

import torch_cluster

RING = to_undirected(torch.tensor([[*range(12), 0, 3], [*range(1, 12), 0, 6, 9]]))


def test_release_and_flags():
    assert torch_geometric.__version__ == "2.7.0"
    assert torch_geometric.typing.torch_cluster is torch_cluster
    assert torch_geometric.typing.WITH_TORCH_CLUSTER
    assert torch_geometric.typing.WITH_TORCH_CLUSTER_BATCH_SIZE


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_dropout_path(device):
    """Whole walks are dropped, edge by edge of the given list, reproducibly."""
    edges = RING.flip([1]).to(device)  # not sorted
    kept = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        left, mask = dropout_path(edges, p=0.2, walk_length=3)
        assert left.device.type == mask.device.type == device
        assert torch.equal(left, edges[:, mask])
        assert 0 < int(mask.sum()) < edges.shape[1]
        kept.append(mask.tolist())
    assert kept[0] == kept[2] != kept[1]


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_dropped_edges_are_those_of_walks(device):
    """On a directed ring a walk of 3 steps takes 3 edges that follow one another."""
    ring = torch.tensor([[*range(40)], [*range(1, 40), 0]], device=device)
    torch.manual_seed(3)
    mask = dropout_path(ring, p=0.05, walk_length=3)[1].tolist()
    gaps = "".join("1" if kept else "0" for kept in mask)
    start = gaps.index("1")
    runs = (gaps[start:] + gaps[:start]).split("1")
    assert any(runs)
    assert all(len(run) >= 3 for run in runs if run)


@pytest.mark.parametrize("p_q", [(1.0, 1.0), (0.25, 4.0)])
def test_node2vec_walks_on_the_device(p_q):
    """PyG keeps the graph on the host; moved by hand, walks are made on the device."""
    edges = set(map(tuple, RING.T.tolist()))
    model = Node2Vec(RING, 8, 6, 4, walks_per_node=4, p=p_q[0], q=p_q[1], num_nodes=12).to("mps")
    model.rowptr, model.col = model.rowptr.to("mps"), model.col.to("mps")
    positive, negative = model.sample(torch.arange(12, device="mps"))
    assert positive.device.type == negative.device.type == "mps"
    assert positive.shape == (12 * 4 * 3, 4)
    steps = torch.stack([positive[:, :-1], positive[:, 1:]], -1).flatten(0, 1).tolist()
    assert edges.issuperset(map(tuple, steps))
    loss = model.loss(positive, negative)
    loss.backward()
    assert float(model.embedding.weight.grad.abs().max()) > 0


@pytest.mark.parametrize("p_q", [(1.0, 1.0), (0.25, 4.0)])
def test_node2vec_loader(p_q):
    model = Node2Vec(RING, 8, 6, 4, walks_per_node=2, p=p_q[0], q=p_q[1], num_nodes=12)
    edges = set(map(tuple, RING.T.tolist()))
    for positive, _ in model.loader(batch_size=5):
        steps = torch.stack([positive[:, :-1], positive[:, 1:]], -1).flatten(0, 1).tolist()
        assert edges.issuperset(map(tuple, steps))


def test_rooted_subgraphs_of_random_walks():
    """Every node's walk stays near it, so its subgraph has the node itself and its neighbours."""
    ring = torch.tensor([[*range(12)], [*range(1, 12), 0]])  # one way to go: nothing is random
    data = Data(edge_index=ring, x=torch.arange(12.0).view(-1, 1))
    out = same(RootedRWSubgraph(walk_length=3), data)
    assert out.n_id.view(12, 4).sort(1).values.tolist() == [
        sorted((start + step) % 12 for step in range(4)) for start in range(12)
    ]


def test_batch_size_is_handed_on():
    pos, batch = clouds((20, 0, 15))
    for call in (
        lambda pos, batch, **more: fps(pos, batch, 0.5, False, **more),
        lambda pos, batch, **more: knn_graph(pos, 4, batch, **more),
        lambda pos, batch, **more: radius_graph(pos, 0.3, batch, **more),
    ):
        known = same(call, pos, batch, batch_size=4)
        assert torch.equal(known, call(pos, batch))


# PyTorch 2.14 announces the end of TorchScript
@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripted_functions():
    pos, batch = clouds((20, 0, 15))
    for function, arguments in ((knn_graph, (pos, 4, batch)), (radius_graph, (pos, 0.3, batch))):
        scripted = torch.jit.script(function)
        for device in ("cpu", "mps"):
            got = scripted(*on(arguments, device))
            assert torch.equal(got.cpu(), function(*arguments))
