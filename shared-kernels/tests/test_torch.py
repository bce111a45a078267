"""The operators as torch sees them: schemas, fakes, compile, export, autocast, autograd."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import mps_pointops
from mps_pointops import flat
from mps_pointops._rules import Rule
from mps_pointops.pytorch3d import knn_points
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


def _ranges(device):
    first = torch.tensor([0, 0, 3, 9], device=device)
    return first, first + 6


def _points(device, rows):
    return cloud("random", rows).to(device)


# opcheck itself reads the gradient of tensors that are no leaves
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("rule", [Rule.SEPARATE.value, Rule.FMA_XYZ.value])
def test_opcheck(device, rule):
    x, y = _points(device, 15), _points(device, 4)
    ptr, out_ptr = torch.tensor([0, 5, 15], device=device), torch.tensor([0, 2, 6], device=device)
    start = torch.tensor([0, 3], device=device)
    first, last = _ranges(device)
    calls = [
        (OPS.fps.default, (x, None, None, None, 3, 6, 5, 2, 1, False, rule, 0)),
        (OPS.fps.default, (x, ptr, out_ptr, start, 2, 6, 10, 4, 0, True, rule, 1)),
        (OPS.knn.default, (y, x, None, None, 1, 3, True, rule)),
        (OPS.knn.default, (y, x, first, last, 1, 3, False, rule)),
        (OPS.ball_query.default, (y, x, None, None, 1, 3, 0.8, True, False, rule)),
        (OPS.ball_query.default, (y, x, first, last, 1, 3, 0.8, False, True, rule)),
        (OPS.ball_count.default, (y, x, first, last, 1, 3, 0.8, False, True, rule)),
    ]
    for op, arguments in calls:
        torch.library.opcheck(op, arguments, test_utils=CHECKS[device])
    y.requires_grad_()
    x.requires_grad_()
    op, arguments = calls[4]
    torch.library.opcheck(op, (y, x, *arguments[2:]), test_utils=CHECKS[device])


def _group(xyz):
    index = mps_pointops.furthest_point_sample(xyz, 8)
    centres = xyz.gather(1, index[..., None].expand(-1, -1, 3))
    distance, neighbours = mps_pointops.knn(centres, xyz, 5)
    d2, inside = mps_pointops.ball_query(centres, xyz, 0.7, 6)
    return distance + d2[..., :5], neighbours, inside


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_fullgraph(device, dynamic):
    compiled = torch.compile(_group, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for clouds, size in ((2, 30), (3, 41)):
        xyz = torch.stack([cloud("random", size, seed=b) for b in range(clouds)]).to(device)
        for got, wanted in zip(compiled(xyz), _group(xyz), strict=True):
            assert torch.equal(got, wanted)


def test_compiled_gradient(device):
    def loss(query, ref):
        return mps_pointops.ball_query(query, ref, 0.9, 4)[0].sum()

    query, ref = (
        _points(device, 6)[None].requires_grad_(),
        _points(device, 9)[None].requires_grad_(),
    )
    wanted = torch.autograd.grad(loss(query, ref), (query, ref))
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for got, plain in zip(
        torch.autograd.grad(compiled(query, ref), (query, ref)), wanted, strict=True
    ):
        torch.testing.assert_close(got, plain)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_code_does_not_look_into_kernels(device):
    """Where it breaks off, operators run as they are, seen by the compiler."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    def net(points):
        moved = points + 1.0
        torch._dynamo.graph_break()
        edges = flat.radius(moved, moved, 0.5)
        return edges.shape[1] + edges.sum(), knn_points(moved[None], moved[None], K=3).dists

    points = cloud("random", 1300).to(device)
    wanted = net(points)
    torch._dynamo.reset()
    got = torch.compile(net, backend=backend, dynamic=False)(points)
    assert all(torch.equal(g, w) for g, w in zip(got, wanted, strict=True))
    inside = [code for code in map(str, (graph.graph for graph in graphs)) if "unfold" in code]
    assert len(graphs) <= 5, inside


def test_export():
    class Group(torch.nn.Module):
        def forward(self, xyz):
            return _group(xyz)

    xyz = _points("cpu", 30)[None]
    program = torch.export.export(Group(), (xyz,))
    names = {str(node.target) for node in program.graph.nodes}
    assert {"mps_pointops.fps.default", "mps_pointops.knn.default"} <= names
    for got, wanted in zip(program.module()(xyz), _group(xyz), strict=True):
        assert torch.equal(got, wanted)


def test_meta_tensors_give_shapes():
    xyz = torch.empty(2, 30, 3, device="meta")
    assert mps_pointops.furthest_point_sample(xyz, 8).shape == (2, 8)
    assert mps_pointops.knn(xyz, xyz, 4)[1].shape == (2, 30, 4)
    assert mps_pointops.ball_query(xyz, xyz, 0.5, 4)[0].dtype == torch.float32


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_recorded_on_fake_tensors(device, mode):
    """Indices and lengths have no values there to look at."""

    def gathered(xyz, features, lengths):
        distance, index = mps_pointops.three_nn(xyz, xyz[:, :5])
        dense = mps_pointops.three_interpolate(features[:, :, :5], index, distance)
        near = knn_points(xyz, xyz, lengths, lengths, K=2, return_nn=True).knn
        return mps_pointops.group_points(features, index), dense, near

    xyz = _points(device, 40)[None]
    arguments = xyz, xyz.transpose(1, 2).contiguous(), torch.tensor([30], device=device)
    recorded = make_fx(gathered, tracing_mode=mode)(*arguments)
    for got, wanted in zip(recorded(*arguments), gathered(*arguments), strict=True):
        assert torch.equal(got, wanted)


def test_autocast_changes_nothing(device):
    xyz = _points(device, 40)[None]
    wanted = _group(xyz)
    with torch.autocast(device, dtype=torch.float16 if device == "mps" else torch.bfloat16):
        for got, plain in zip(_group(xyz), wanted, strict=True):
            assert got.dtype == plain.dtype
            assert torch.equal(got, plain)


def test_inference_mode(device):
    xyz = _points(device, 40)[None]
    wanted = _group(xyz)
    with torch.inference_mode():
        for got, plain in zip(_group(xyz), wanted, strict=True):
            assert torch.equal(got, plain)
