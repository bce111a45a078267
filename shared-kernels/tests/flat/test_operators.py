"""flat_fps, flat_knn and flat_radius as torch sees them: schemas, fakes, compiled graphs."""

import pytest
import torch

from mps_pointops import flat
from pointops_testing import cloud

OPS = torch.ops.mps_pointops
# opcheck's registration test knows no MPS
CHECKS = {
    "cpu": (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ),
    "mps": ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
}


def _data(device):
    x, y = cloud("random", 30).to(device), cloud("random", 8, seed=1).to(device)
    batch_x = torch.tensor([0] * 10 + [2] * 20, device=device)
    batch_y = torch.tensor([0] * 3 + [2] * 5, device=device)
    ptr_x = torch.tensor([0, 10, 30], device=device)
    ptr_y = torch.tensor([0, 3, 8], device=device, dtype=torch.int32)
    return x, y, batch_x, batch_y, ptr_x, ptr_y


def _calls(device):
    x, y, bx, by, px, py = _data(device)
    ratio = torch.tensor(0.3)
    each = torch.tensor([0.3, 0.5])
    return [
        (OPS.flat_fps, (x, None, None, None, False, None, 0, 0)),
        (OPS.flat_fps, (x, bx, None, ratio, True, 3, 0, 0)),
        (OPS.flat_fps, (x, None, px, each, False, None, 1, 1)),
        (OPS.flat_knn, (x, y, None, None, None, None, 3, None, 1)),
        (OPS.flat_knn, (x, y, bx, by, None, None, 3, 3, 0)),
        (OPS.flat_knn, (x, y, None, None, px, py, 50, None, 1)),
        (OPS.flat_radius, (x, y, bx, by, None, None, 1.0, 32, 3, False, 1)),
        (OPS.flat_radius, (x, y, None, None, px, py, 1.0, None, None, True, 1)),
    ]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(device):
    for op, arguments in _calls(device):
        torch.library.opcheck(op.default, arguments, test_utils=CHECKS[device])
    for op, arguments in _calls(device)[1::3]:
        x = arguments[0].clone().requires_grad_()
        torch.library.opcheck(op.default, (x, *arguments[1:]), test_utils=CHECKS[device])


def test_results(device):
    for op, arguments in _calls(device):
        got = op(arguments[0].clone().requires_grad_(), *arguments[1:])
        assert got.dtype == torch.int64
        assert got.device.type == device
        assert got.is_contiguous()
        assert not got.requires_grad
        assert got.numel()


def test_operators_are_the_public_functions(device):
    x, y, bx, by, px, py = _data(device)
    knn = flat.knn(x, y, 3, bx, by)
    assert torch.equal(knn, OPS.flat_knn(x, y, bx, by, None, None, 3, None, 0))
    assert torch.equal(knn, flat.knn(x, y, 3, ptr_x=px, ptr_y=py))
    radius = flat.radius(x, y, 1.0, bx, by, 4)
    assert torch.equal(radius, OPS.flat_radius(x, y, bx, by, None, None, 1.0, 4, None, False, 1))
    assert torch.equal(radius, flat.radius(x, y, 1.0, max_num_neighbors=4, ptr_x=px, ptr_y=py))
    fps = flat.fps(x, bx, 0.3, random_start=False)
    ratio = torch.tensor(0.3)
    assert torch.equal(fps, OPS.flat_fps(x, bx, None, ratio, False, None, 0, 0))
    # a ptr of the host needs no copy of it on the device
    assert torch.equal(fps, OPS.flat_fps(x, None, px.cpu(), ratio, False, None, 0, 0))


def _pipeline(x, y, batch_x, batch_y, r, ratio, k):
    picked = flat.fps(x, batch_x, ratio, random_start=False)
    return (
        picked,
        flat.knn(x, y, k, batch_x, batch_y),
        flat.knn(x[picked], y, k, batch_x[picked], batch_y, batch_size=3),
        flat.radius(x, x[picked], r, batch_x, batch_x[picked], None),
        flat.radius(x, y, r, batch_x),
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_fullgraph(device, backend, dynamic):
    x, y, bx, by, px, py = _data(device)
    torch._dynamo.reset()
    compiled = torch.compile(_pipeline, backend=backend, fullgraph=True, dynamic=dynamic)
    for size, r, ratio, k in ((30, 1.0, 0.5, 3), (25, 0.9, 0.4, 2)):
        arguments = (x[:size], y, bx[:size], by, r, ratio, k)
        for got, wanted in zip(compiled(*arguments), _pipeline(*arguments), strict=True):
            assert torch.equal(got, wanted)

    def ptrs(x, y, px, py):
        picked = flat.fps(x, ptr=px, ratio=torch.tensor(0.4), random_start=False)
        return picked, flat.knn(x, y, 4, ptr_x=px, ptr_y=py), flat.fps(x, ptr=[0, 10, 30])[:1] * 0

    compiled = torch.compile(ptrs, backend=backend, fullgraph=True, dynamic=dynamic)
    for got, wanted in zip(compiled(x, y, px, py), ptrs(x, y, px, py), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_random_starts_follow_the_seed(device, backend):
    """Two equal calls in one graph are two draws."""
    x, _, batch, *_ = _data(device)

    def twice(x, batch):
        return flat.fps(x, batch, 0.2), flat.fps(x, batch, 0.2)

    torch._dynamo.reset()
    compiled = torch.compile(twice, backend=backend, fullgraph=True)
    draws = set()
    for seed in range(5):
        torch.manual_seed(seed)
        got = compiled(x, batch)
        torch.manual_seed(seed)
        for one, other in zip(got, twice(x, batch), strict=True):
            assert torch.equal(one, other)
        draws.add(torch.equal(*got))
    assert False in draws


def test_default_dtype_changes_nothing(device):
    calls = _calls(device)
    calls = [c for c in calls if not (c[0] is OPS.flat_fps and c[1][4])]
    wanted = [op(*arguments) for op, arguments in calls]
    compiled = torch.compile(_pipeline, backend="aot_eager", fullgraph=True)
    x, y, bx, by, *_ = _data(device)
    plain = _pipeline(x, y, bx, by, 1.0, 0.5, 3)
    try:
        torch.set_default_dtype(torch.float64)
        got = [op(*arguments) for op, arguments in calls]
        graph = compiled(x, y, bx, by, 1.0, 0.5, 3)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip([*got, *graph], [*wanted, *plain], strict=True):
        assert torch.equal(one, other)


def test_export():
    class Group(torch.nn.Module):
        def forward(self, x, batch):
            return flat.knn(x, x, 3, batch, batch)

    x, _, batch, *_ = _data("cpu")
    program = torch.export.export(Group(), (x, batch))
    assert "mps_pointops.flat_knn.default" in {str(node.target) for node in program.graph.nodes}
    assert torch.equal(program.module()(x, batch), flat.knn(x, x, 3, batch, batch))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is:FutureWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")
def test_scripted_calls(device):
    """TorchScript knows the operators with all their optional arguments."""

    def edges(x: torch.Tensor, y: torch.Tensor, k: int) -> torch.Tensor:
        return torch.ops.mps_pointops.flat_knn(x, y, None, None, None, None, k, None, 1)

    x, y, *_ = _data(device)
    scripted = torch.jit.script(edges)
    assert torch.equal(scripted(x, y, 3), flat.knn(x, y, 3, rule="fma_xyz"))
