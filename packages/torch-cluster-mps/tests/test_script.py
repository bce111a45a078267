"""TorchScript: every function but `nearest` compiles, saves and loads."""

import io

import pytest
import torch
from torch import Tensor

import torch_cluster
from pointops_testing import assert_same_bits
from torch_cluster import fps, knn_graph, radius, radius_graph

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


def _points(device):
    return torch.rand(30, 3, generator=torch.Generator().manual_seed(0)).to(device)


def _arguments(device):
    x = _points(device)
    batch = torch.tensor([0] * 10 + [1] * 5 + [2] * 15, device=device)
    row = torch.tensor([0, 1, 1, 1, 2, 2, 3, 3, 4, 4], device=device)
    col = torch.tensor([1, 0, 2, 3, 1, 4, 1, 4, 2, 3], device=device)
    size = torch.full((3,), 0.3, device=device)
    cpu = torch.tensor([0, 1]), torch.tensor([0, 3, 7])
    return {
        "knn": (x, x, 4, batch, batch, False, 1, None),
        "knn_graph": (x, 4, batch, False, "source_to_target", False, 1, 3),
        "radius": (x, x, 0.4, batch, batch, 6, 1, None, True),
        "radius_graph": (x, 0.4, batch, True, None, "target_to_source", 1, None),
        "grid_cluster": (x, size, None, None),
        "graclus_cluster": (row, col, None, None),
        "random_walk": (row, col, row, 5, 1.0, 0.5, True, None, True),
        "neighbor_sampler": (*cpu, 2.0),
    }


NAMES = sorted(_arguments("cpu"))


def _saved(scripted):
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.parametrize("name", NAMES)
def test_functions(device, name):
    function, arguments = getattr(torch_cluster, name), _arguments(device)[name]
    scripted = torch.jit.script(function)
    results = []
    for call in (function, scripted, _saved(scripted)):
        torch.manual_seed(0)
        result = call(*arguments)
        results.append(result if isinstance(result, tuple) else (result,))
    for other in results[1:]:
        for got, wanted in zip(other, results[0], strict=True):
            assert_same_bits(got, wanted)


def test_defaults(device):
    x = _points(device)
    assert_same_bits(torch.jit.script(radius)(x, x, 0.4), radius(x, x, 0.4))
    assert_same_bits(torch.jit.script(radius_graph)(x, r=2), radius_graph(x, 2.0))
    scripted = torch.jit.script(knn_graph)
    assert_same_bits(scripted(x, k=2, loop=True), knn_graph(x, 2, loop=True))
    with pytest.raises(torch.jit.Error, match="flow must be"):
        scripted(x, 2, flow="both")


def _all_ways(x: Tensor, batch: Tensor, ratio: Tensor, ptr: Tensor) -> list[Tensor]:
    return [
        fps(x, random_start=False),
        fps(x, batch, random_start=False),
        fps(x, batch, 0.3, False),
        fps(x, batch, ratio, False),
        fps(x, batch, ratio, False, 3),
        fps(x, ratio=0.3, random_start=False, ptr=ptr),
        fps(x, ratio=ratio, random_start=False, ptr=ptr),
        fps(x, ratio=0.3, random_start=False, ptr=[0, 10, 15, 30]),
        fps(x, ratio=ratio, random_start=False, ptr=[0, 10, 15, 30]),
    ]


def test_fps_inside_scripted_functions(device):
    x = _points(device)
    batch = torch.tensor([0] * 10 + [1] * 5 + [2] * 15, device=device)
    ptr, ratio = torch.tensor([0, 10, 15, 30], device=device), torch.tensor([0.3], device=device)
    scripted = torch.jit.script(_all_ways)
    wanted = _all_ways(x, batch, ratio, ptr)
    for call in (scripted, _saved(scripted)):
        for got, plain in zip(call(x, batch, ratio, ptr), wanted, strict=True):
            assert_same_bits(got, plain)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 4)

    def forward(self, pos: Tensor, batch: Tensor) -> Tensor:
        edges = radius_graph(pos, 0.5, batch)
        out = torch.zeros(pos.size(0), 4, device=pos.device)
        return out.index_add(0, edges[1], self.lin(pos[edges[0]] - pos[edges[1]]))


def test_modules(device):
    x = _points(device)
    batch = torch.tensor([0] * 10 + [1] * 20, device=device)
    net = Net().to(device)
    for module in (torch.jit.script(net), _saved(torch.jit.script(net))):
        torch.testing.assert_close(module(x, batch), net(x, batch))


def test_files_saved_with_the_original(device):
    """They call the operators, with pointers."""

    def call(x: Tensor, ptr: Tensor) -> Tensor:
        return torch.ops.torch_cluster.radius(x, x, ptr, ptr, 0.4, 6, 1)

    x, ptr = _points(device), torch.tensor([0, 10, 30], device=device)
    wanted = torch.ops.torch_cluster.radius(x, x, ptr, ptr, 0.4, 6, 1)
    assert_same_bits(_saved(torch.jit.script(call))(x, ptr), wanted)
