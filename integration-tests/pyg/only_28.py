"""What PyG 2.8 asks of pyg-lib beyond the calls that it shares with earlier releases."""

import os

import pyg_lib
import pytest
import torch
import torch_geometric
from pyg_compare import clouds, features, same, same_model
from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.nn import (
    HeteroDictLinear,
    HeteroLinear,
    Node2Vec,
    fps,
    knn,
    knn_graph,
    nearest,
    radius_graph,
)
from torch_geometric.transforms import RootedRWSubgraph
from torch_geometric.utils import dropout_path, to_undirected

import mps_emulator
import pyg_lib_mps_plugin

RING = to_undirected(torch.tensor([[*range(12), 0, 3], [*range(1, 12), 0, 6, 9]]))


def test_release_and_flags():
    assert torch_geometric.__version__ == "2.8.1"
    assert torch_geometric.typing.pyg_lib is pyg_lib
    for name in ("FPS", "KNN", "RADIUS", "NEAREST", "GRID_CLUSTER", "GRACLUS", "PYG_LIB"):
        assert getattr(torch_geometric.typing, f"WITH_{name}"), name
    assert "pyg::knn" in pyg_lib_mps_plugin.registered()
    assert "_failure" in vars(pyg_lib_mps_plugin)
    assert pyg_lib_mps_plugin._failure is None


@pytest.mark.parametrize("sizes", [(), (0, 3, 0, 2, 0), (4,)])
def test_pointers_of_batch_vectors(sizes):
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
    for dtype in (torch.int64, torch.int32):
        ptr = same(lambda b: index2ptr(b, len(sizes)), batch.to(dtype))
        assert ptr.dtype == dtype
        assert ptr.tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]


def test_last_clouds_missing_on_one_side():
    """Each side has pointers of its own batch vector: of three clouds here and of two there."""
    x, batch_x = clouds((10, 12, 9))
    y, batch_y = clouds((4, 5), seed=1)
    edges = same(lambda x, y, bx, by: knn(x, y, 3, bx, by), x, y, batch_x, batch_y)
    assert edges.shape == (2, 27)
    assert torch.equal(batch_x[edges[1]], batch_y[edges[0]])
    edges = same(lambda x, y, bx, by: knn(x, y, 3, bx, by), y, x, batch_y, batch_x)
    assert edges.shape == (2, 22 * 3)


def test_batch_vectors_that_are_not_sorted():
    """Their pointers join clouds on the CPU."""
    pos = torch.rand(6, 3, device="mps")
    batch = torch.tensor([0, 1, 0, 1, 0, 1], device="mps")
    for call in (
        lambda: fps(pos, batch),
        lambda: knn(pos, pos, 2, batch, batch),
        lambda: knn_graph(pos, 2, batch, batch_size=2),
        lambda: radius_graph(pos, 5.0, batch),
        lambda: nearest(pos, pos, batch, batch),
    ):
        with pytest.raises(ValueError, match="sort the points"):
            call()


def test_strided_and_one_axis_coordinates():
    """PyG hands them on as they are."""
    pos, batch = clouds((20, 15))
    for points in (pos.T.contiguous().T, pos[:, ::2], pos[:, 0]):
        given = same(lambda p, b: knn_graph(p, 4, b), points, batch)
        dense = points.contiguous().view(len(points), -1)
        assert torch.equal(given, knn_graph(dense, 4, batch))


def taken_by_the_fallback():
    """Whether PyTorch ran `pyg::knn` of MPS tensors on the host; a real device does not tell."""
    pos = clouds((20,))[0].to("mps")
    if not mps_emulator.is_installed():
        return knn(pos, pos, 3).device.type != "mps"
    with mps_emulator.count_operators() as calls:
        knn(pos, pos, 3)
    return "pyg::knn" in calls.operators


def test_kernels_win_over_the_fallback_to_the_cpu():
    assert not taken_by_the_fallback()
    pyg_lib_mps_plugin.unregister()
    try:
        if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK") == "1":
            assert taken_by_the_fallback() or not mps_emulator.is_installed()
        else:
            with pytest.raises(NotImplementedError, match="pyg::knn"):
                taken_by_the_fallback()
    finally:
        pyg_lib_mps_plugin.register()
    assert not taken_by_the_fallback()


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_dropout_path(device):
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


def test_node2vec_walks_on_the_device():
    """PyG keeps the graph on the host; with seeds on the device the walks are made there."""
    edges = set(map(tuple, RING.T.tolist()))
    model = Node2Vec(RING, 8, 6, 4, walks_per_node=4, num_nodes=12).to("mps")
    positive, negative = model.sample(torch.arange(12, device="mps"))
    assert positive.device.type == negative.device.type == "mps"
    steps = torch.stack([positive[:, :-1], positive[:, 1:]], -1).flatten(0, 1).tolist()
    assert edges.issuperset(map(tuple, steps))
    model.loss(positive, negative).backward()
    assert float(model.embedding.weight.grad.abs().max()) > 0


def test_rooted_subgraphs_of_random_walks():
    ring = torch.tensor([[*range(12)], [*range(1, 12), 0]])  # one way to go: nothing is random
    data = Data(edge_index=ring, x=torch.arange(12.0).view(-1, 1))
    out = same(RootedRWSubgraph(walk_length=3), data)
    assert out.n_id.view(12, 4).sort(1).values.tolist() == [
        sorted((start + step) % 12 for step in range(4)) for start in range(12)
    ]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_hetero_linear(is_sorted):
    """With pyg-lib installed PyG takes its `segment_matmul` here."""
    kind = torch.tensor([0] * 5 + [2] * 4 + [3] * 6)
    kind = kind if is_sorted else kind.flip(0)
    same_model(lambda: HeteroLinear(4, 3, 4, is_sorted=is_sorted), features(15, 4), kind)


def test_hetero_dict_linear():
    class Linears(HeteroDictLinear):
        def forward(self, *xs):
            return super().forward({f"kind{i}": x for i, x in enumerate(xs)})

    widths = {f"kind{i}": 3 + i for i in range(11)}  # from 10 on: grouped_matmul
    xs = [features(4 + i, 3 + i, seed=i) for i in range(11)]
    same_model(lambda: Linears(widths, 5), *xs)
