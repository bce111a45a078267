"""Names, argument order, checks and their order, keywords, compilation."""

import inspect

import pytest
import torch

import pointnet2_ops
from pointnet2_ops import _ext, pointnet2_modules, pointnet2_utils
from pointops_testing import assert_same_bits

FUNCTIONS = {
    "furthest_point_sample": ("FurthestPointSampling", ["xyz", "npoint"]),
    "gather_operation": ("GatherOperation", ["features", "idx"]),
    "three_nn": ("ThreeNN", ["unknown", "known"]),
    "three_interpolate": ("ThreeInterpolate", ["features", "idx", "weight"]),
    "grouping_operation": ("GroupingOperation", ["features", "idx"]),
    "ball_query": ("BallQuery", ["radius", "nsample", "xyz", "new_xyz"]),
}
LOW_LEVEL = {
    "furthest_point_sampling": ["points", "nsamples"],
    "gather_points": ["points", "idx"],
    "gather_points_grad": ["grad_out", "idx", "n"],
    "three_nn": ["unknowns", "knows"],
    "three_interpolate": ["points", "idx", "weight"],
    "three_interpolate_grad": ["grad_out", "idx", "weight", "m"],
    "ball_query": ["new_xyz", "xyz", "radius", "nsample"],
    "group_points": ["points", "idx"],
    "group_points_grad": ["grad_out", "idx", "n"],
}
CLASSES = {
    "QueryAndGroup": "radius, nsample, use_xyz=True",
    "GroupAll": "use_xyz=True",
    "PointnetSAModuleMSG": "npoint, radii, nsamples, mlps, bn=True, use_xyz=True",
    "PointnetSAModule": "mlp, npoint=None, radius=None, nsample=None, bn=True, use_xyz=True",
    "PointnetFPModule": "mlp, bn=True",
}
FORWARDS = {
    "QueryAndGroup": "self, xyz, new_xyz, features=None",
    "GroupAll": "self, xyz, new_xyz, features=None",
    "PointnetSAModule": "self, xyz, features",
    "PointnetFPModule": "self, unknown, known, unknow_feats, known_feats",
}


def _plain(function):
    parameters = inspect.signature(function).parameters.values()
    return ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)


def test_versions():
    assert pointnet2_ops.__version__ == pointnet2_ops._version.__version__ == "3.0.0"


def test_functions():
    for alias, (name, parameters) in FUNCTIONS.items():
        function = getattr(pointnet2_utils, name)
        assert issubclass(function, torch.autograd.Function)
        assert getattr(pointnet2_utils, alias).__self__ is function
        assert list(inspect.signature(function.forward).parameters) == parameters


def test_low_level_functions():
    public = {name for name, value in vars(_ext).items() if inspect.isfunction(value)}
    assert {name for name in public if not name.startswith("_")} == set(LOW_LEVEL)
    for name, parameters in LOW_LEVEL.items():
        assert list(inspect.signature(getattr(_ext, name)).parameters) == parameters
    assert pointnet2_utils._ext is _ext


def test_modules():
    for name, parameters in CLASSES.items():
        where = pointnet2_utils if hasattr(pointnet2_utils, name) else pointnet2_modules
        assert _plain(getattr(where, name)) == parameters
    for name, parameters in FORWARDS.items():
        where = pointnet2_utils if hasattr(pointnet2_utils, name) else pointnet2_modules
        assert _plain(getattr(where, name).forward) == parameters
    assert _plain(pointnet2_modules.build_shared_mlp) == "mlp_spec, bn=True"
    assert issubclass(
        pointnet2_modules.PointnetSAModuleMSG, pointnet2_modules._PointnetSAModuleBase
    )


def test_names_that_a_star_import_brings():
    scope = {}
    exec("from pointnet2_ops.pointnet2_utils import *", scope)
    wanted = {*FUNCTIONS, "QueryAndGroup", "GroupAll", "torch", "nn", "Function", "warnings"}
    assert wanted <= set(scope)
    assert {"List", "Optional", "Tuple", "Any"} <= set(scope)


def _arguments(device):
    xyz = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0)).to(device) + 3
    features, weight = xyz.transpose(1, 2).contiguous(), xyz[:, :7].contiguous()
    idx = torch.arange(42, dtype=torch.int32, device=device).view(2, 7, 3) % 20
    return xyz, features, idx, weight


def _calls(device):
    xyz, features, idx, weight = _arguments(device)
    flat, grad, groups = idx[:, :, 0].contiguous(), features[:, :, :7].contiguous(), weight
    groups = weight.transpose(1, 2).unsqueeze(3).repeat(1, 1, 1, 3)
    return {
        "furthest_point_sampling": ([xyz], [4]),
        "gather_points": ([features, flat], []),
        "gather_points_grad": ([grad, flat], [20]),
        "three_nn": ([xyz, weight], []),
        "three_interpolate": ([features, idx, weight], []),
        "three_interpolate_grad": ([grad, idx, weight], [20]),
        "ball_query": ([weight, xyz], [0.5, 4]),
        "group_points": ([features, idx], []),
        "group_points_grad": ([groups, idx], [20]),
    }


def _strided(tensor):
    return torch.stack((tensor, tensor), dim=-1)[..., 0]


@pytest.mark.parametrize("call", LOW_LEVEL)
def test_checks_and_their_order(device, call):
    """Contiguity of every tensor first, then dtypes, then devices: first argument first."""
    tensors, rest = _calls(device)[call]
    function, names = getattr(_ext, call), LOW_LEVEL[call]
    function(*tensors, *rest)

    def refuse(bad, message):
        with pytest.raises(RuntimeError, match=f"{call}: {message}"):
            function(*bad, *rest)

    wrong = [t.bool() if name != "idx" else t.float() for name, t in zip(names, tensors)]  # noqa: B905
    for n, name in enumerate(names[: len(tensors)]):
        kind = "int" if name == "idx" else "float"
        refuse([*wrong[:n], _strided(wrong[n]), *map(_strided, wrong[n + 1 :])], ".* contiguous")
        refuse([*wrong[:n], _strided(tensors[n]), *wrong[n + 1 :]], f"{name} must be a contiguous")
        refuse([*tensors[:n], *wrong[n:]], f"{name} must be an? {kind} tensor, got torch")
        other = "cpu" if device == "mps" else "mps"
        if n:
            moved = [t.to(other) if m == n else t for m, t in enumerate(tensors)]
            refuse(moved, f"{name} must be on the device of {names[0]} ")
    with pytest.raises(TypeError, match=f"{names[0]} must be a torch.Tensor, got list"):
        function([[0.0]], *tensors[1:], *rest)


def test_functions_ask_for_contiguous_tensors(device):
    xyz, features, idx, _ = _arguments(device)
    with pytest.raises(RuntimeError, match="xyz must be a contiguous tensor"):
        pointnet2_utils.furthest_point_sample(xyz.transpose(0, 1), 4)
    with pytest.raises(RuntimeError, match="features must be a contiguous tensor"):
        pointnet2_utils.grouping_operation(xyz.transpose(1, 2), idx)
    with pytest.raises(RuntimeError, match="new_xyz must be a contiguous tensor"):
        pointnet2_utils.ball_query(0.5, 4, xyz, features.transpose(1, 2))
    with pytest.raises(RuntimeError, match=r"idx must be an int tensor, got torch\.float32"):
        pointnet2_utils.gather_operation(features, idx[:, :, 0].contiguous().float())


def _index_calls(device):
    """Functions of features and indices: name, what it calls the features, its call, an index."""
    _, features, idx, weight = _arguments(device)
    flat = idx[:, :, 0].contiguous()
    grad = features[:, :, :7].contiguous()
    groups = grad.unsqueeze(3).repeat(1, 1, 1, 3)
    pu = pointnet2_utils
    return [
        ("gather_operation", "features", pu.gather_operation, features, flat),
        ("grouping_operation", "features", pu.grouping_operation, features, idx),
        (
            "three_interpolate",
            "features",
            lambda f, i: pu.three_interpolate(f, i, weight),
            features,
            idx,
        ),
        ("gather_points", "points", _ext.gather_points, features, flat),
        ("group_points", "points", _ext.group_points, features, idx),
        (
            "three_interpolate",
            "points",
            lambda f, i: _ext.three_interpolate(f, i, weight),
            features,
            idx,
        ),
        (
            "gather_points_grad",
            "grad_out",
            lambda f, i: _ext.gather_points_grad(f, i, 20),
            grad,
            flat,
        ),
        (
            "group_points_grad",
            "grad_out",
            lambda f, i: _ext.group_points_grad(f, i, 20),
            groups,
            idx,
        ),
        (
            "three_interpolate_grad",
            "grad_out",
            lambda f, i: _ext.three_interpolate_grad(f, i, weight, 20),
            grad,
            idx,
        ),
    ]


def test_errors_name_the_arguments_of_the_call(device, monkeypatch):
    monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    other = "cpu" if device == "mps" else "mps"
    for call, name, function, features, idx in _index_calls(device):
        cases = [
            (features[0], idx, ValueError, f"{name} must be a tensor of {features.dim()} axes"),
            (features, idx[0], ValueError, f"idx must be a tensor of {idx.dim()} axes"),
            (features, idx[:1], ValueError, rf"idx must be of the batch size of {name} \(2\)"),
            (features, idx + 20, IndexError, "idx must be from 0 to 19, got 39"),
            (features, idx - 1, IndexError, "idx must be from 0 to 19, got -1"),
            (features.int(), idx, RuntimeError, f"{name} must be a float tensor"),
            (features, idx.bool(), RuntimeError, "idx must be an int tensor"),
            (features, idx.to(other), RuntimeError, f"idx must be on the device of {name} "),
            (None, idx, TypeError, f"{name} must be a torch.Tensor"),
            (features, None, TypeError, "idx must be a torch.Tensor"),
        ]
        for first, second, error, text in cases:
            with pytest.raises(error, match=f"^{call}: {text}"):
                function(first, second)
        if name == "grad_out":
            short = features[:, :, :5].contiguous()
            with pytest.raises(ValueError, match=f"^{call}: idx must be of shape "):
                function(short, idx)


def test_errors_name_the_sizes_of_the_call(device):
    xyz, features, idx, weight = _arguments(device)
    flat, grad = idx[:, :, 0].contiguous(), features[:, :, :7].contiguous()
    pu, none, pairs = pointnet2_utils, xyz[:, :0].contiguous(), idx[:, :, :2].contiguous()
    cases = [
        (_ext.gather_points_grad, (grad, flat, -1), "gather_points_grad: n must be at least 0"),
        (
            _ext.group_points_grad,
            (grad.unsqueeze(3).repeat(1, 1, 1, 3), idx, -1),
            "group_points_grad: n must be at least 0",
        ),
        (
            _ext.three_interpolate_grad,
            (grad, idx, weight, -1),
            "three_interpolate_grad: m must be at least 0",
        ),
        (
            pu.three_interpolate,
            (features, pairs, weight),
            "three_interpolate: idx must be of shape",
        ),
        (pu.furthest_point_sample, (xyz, -1), "furthest_point_sample: npoint must be"),
        (pu.furthest_point_sample, (xyz[0], 4), "furthest_point_sample: xyz must be of shape"),
        (pu.furthest_point_sample, (none, 4), "furthest_point_sample: xyz must be clouds"),
        (_ext.furthest_point_sampling, (xyz, -1), "furthest_point_sampling: nsamples must be"),
        (_ext.furthest_point_sampling, (xyz[0], 4), "furthest_point_sampling: points must be of"),
        (_ext.furthest_point_sampling, (none, 4), "furthest_point_sampling: points must be clouds"),
        (pu.three_nn, (xyz, xyz[:1]), "three_nn: known must be of the batch size of unknown "),
        (_ext.three_nn, (xyz, xyz[:1]), "three_nn: knows must be of the batch size of unknowns "),
    ]
    for function, arguments, text in cases:
        with pytest.raises(ValueError, match=f"^{text}"):
            function(*arguments)


def _keywords_work():
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    try:
        Nothing.apply(x=torch.zeros(1))
    except TypeError:
        return False
    return True


@pytest.mark.skipif(not _keywords_work(), reason="this torch has no keywords for any Function")
def test_keywords(device):
    xyz, features, idx, weight = _arguments(device)
    pu = pointnet2_utils
    flat = idx[:, :, 0].contiguous()
    pairs = [
        (pu.furthest_point_sample(xyz=xyz, npoint=4), pu.furthest_point_sample(xyz, 4)),
        (pu.gather_operation(features=features, idx=flat), pu.gather_operation(features, flat)),
        (pu.three_nn(unknown=xyz, known=weight)[1], pu.three_nn(xyz, weight)[1]),
        (
            pu.three_interpolate(features=features, idx=idx, weight=weight),
            pu.three_interpolate(features, idx, weight),
        ),
        (pu.grouping_operation(features, idx=idx), pu.grouping_operation(features, idx)),
        (
            pu.ball_query(radius=0.5, nsample=4, xyz=xyz, new_xyz=weight),
            pu.ball_query(0.5, 4, xyz, weight),
        ),
    ]
    for got, wanted in pairs:
        assert_same_bits(got, wanted)
    features.requires_grad_()
    (grad,) = torch.autograd.grad(pu.gather_operation(features=features, idx=flat).sum(), features)
    assert grad.sum().item() == flat.numel() * 3


def _everything(xyz, features):
    pu = pointnet2_utils
    idx = pu.furthest_point_sample(xyz, 9)
    centres = pu.gather_operation(xyz.transpose(1, 2).contiguous(), idx)
    centres = centres.transpose(1, 2).contiguous()
    pooled = pu.grouping_operation(features, pu.ball_query(0.8, 5, xyz, centres)).mean(3)
    distance, near = pu.three_nn(xyz, centres)
    weight = 1.0 / (distance + 1e-8)
    weight = weight / weight.sum(2, keepdim=True)
    return pu.three_interpolate(pooled, near, weight), pu.QueryAndGroup(0.8, 5)(xyz, centres)


# torch below 2.14 warns of what its compiler does itself with any autograd Function
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_fullgraph(device, dynamic):
    xyz, features, _, _ = _arguments(device)
    leaves = xyz.requires_grad_(), features.requires_grad_()
    compiled = torch.compile(_everything, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    got, wanted = compiled(*leaves), _everything(*leaves)
    for one, other in zip(got, wanted, strict=True):
        assert_same_bits(one, other)
    slopes = (
        torch.autograd.grad(sum(out.square().sum() for out in outs), leaves)
        for outs in (got, wanted)
    )
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


def test_inference_mode(device):
    xyz, features, _, _ = _arguments(device)
    wanted = _everything(xyz, features)
    with torch.inference_mode():
        for got, plain in zip(_everything(xyz, features), wanted, strict=True):
            assert_same_bits(got, plain)


def test_default_dtype_float64(device):
    xyz, features, _, _ = _arguments(device)
    wanted = _everything(xyz, features)
    squared = _ext.three_nn(xyz, xyz)[0]
    torch.set_default_dtype(torch.float64)
    try:
        for got, plain in zip(_everything(xyz, features), wanted, strict=True):
            assert_same_bits(got, plain)
        assert_same_bits(_ext.three_nn(xyz, xyz)[0], squared)
    finally:
        torch.set_default_dtype(torch.float32)
