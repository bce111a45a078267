"""What a call costs the host: operators of torch, dispatches and read-backs, none of them more."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import mps_emulator
import mps_pointops
from mps_pointops import flat
from mps_pointops._checks import plain
from mps_pointops._metal import Source

pytestmark = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count"
)
OPS = torch.ops.mps_pointops


class _Data:
    def __init__(self):
        self.dense = torch.rand(4, 32, 3, device="mps")
        self.x = self.dense.view(-1, 3)
        self.one = self.x[None]
        self.batch = torch.arange(4, device="mps").repeat_interleave(32)
        self.features = torch.rand(4, 5, 32, device="mps")
        self.index = torch.zeros(4, 7, dtype=torch.int64, device="mps")
        self.groups = self.index.view(4, 7, 1)


# Of every call: operators of torch that were not called by another one, dispatches (those of them
# that the device runs, and kernels), and read-backs.
CALLS = {
    "furthest_point_sample": (lambda d: mps_pointops.furthest_point_sample(d.dense, 8), (6, 1, 0)),
    "knn": (lambda d: mps_pointops.knn(d.dense, d.dense, 16), (7, 1, 0)),
    "ball_query": (lambda d: mps_pointops.ball_query(d.dense, d.dense, 0.1, 16), (8, 1, 0)),
    "three_nn": (lambda d: mps_pointops.three_nn(d.dense, d.dense), (6, 1, 0)),
    "gather_points": (lambda d: mps_pointops.gather_points(d.features, d.index), (5, 1, 0)),
    "group_points": (lambda d: mps_pointops.group_points(d.features, d.groups), (7, 1, 0)),
    "flat.fps of clouds": (lambda d: flat.fps(d.x, d.batch, 0.25), (19, 4, 1)),
    "flat.fps from the first": (
        lambda d: flat.fps(d.x, d.batch, 0.25, False, batch_size=4),
        (18, 3, 1),
    ),
    "flat.fps of one": (lambda d: flat.fps(d.x, None, 0.25), (14, 3, 0)),
    "flat.knn of clouds": (lambda d: flat.knn(d.x, d.x, 16, d.batch, d.batch), (13, 3, 1)),
    "flat.knn of one": (lambda d: flat.knn(d.x, d.x, 16), (11, 3, 1)),
    "flat.radius of clouds": (lambda d: flat.radius(d.x, d.x, 0.1, d.batch, d.batch), (14, 4, 1)),
    "flat.radius of one": (lambda d: flat.radius(d.x, d.x, 0.1), (10, 3, 1)),
    "graph of clouds": (lambda d: OPS.flat_knn_graph(d.x, d.batch, 16, None, 1, True), (16, 4, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name, monkeypatch):
    call, wanted = CALLS[name]
    data = _Data()
    launched = []
    kernel = Source.kernel

    def counted(self, *values, name=None):
        found = kernel(self, *values, name=name)

        def launch(*arguments, **grid):
            launched.append(name or self.kernels[0])
            return found(*arguments, **grid)

        return launch

    call(data)  # compiles
    monkeypatch.setattr(Source, "kernel", counted)
    with mps_emulator.count_operators() as run, mps_emulator.count_readbacks() as reads:
        call(data)
    dispatches = len(launched) + run.count - reads.count
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        call(data)
    operators = [
        event.name
        for event in profiled.events()
        if event.name.startswith("aten::")
        and not (event.cpu_parent and event.cpu_parent.name.startswith("aten::"))
    ]
    assert (dispatches, reads.count) == wanted[1:], launched
    if torch.__version__[:4] == "2.14":  # others may make them of other ones
        assert len(operators) == wanted[0], operators


def test_what_is_right_is_not_made_again():
    x = torch.rand(4, 3, device="mps")
    assert plain(x) is x
    for other in (x.t(), x.half(), x.clone().requires_grad_()):
        made = plain(other)
        assert made.dtype == torch.float32
        assert made.is_contiguous()
        assert not made.requires_grad
        assert torch.equal(made, other.detach().float())
