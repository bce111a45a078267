"""Cells of a grid: both devices against the reference, exactly, and the reference by hand."""

import pytest
import torch

import mps_emulator
import mps_pointops.ops.grid_cluster.mps as kernels
from mps_pointops._metal import dispatch
from mps_pointops.ops.grid_cluster import grid_cluster
from mps_pointops.ops.grid_cluster.reference import grid_cluster_reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud

OP = torch.ops.mps_pointops.grid_cluster
LOW, HIGH = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max


def _bounds(points):
    """Of the finite points."""
    kept = [point for point in points if torch.isfinite(point).all()]
    if not kept:
        return torch.full(points.shape[1:], torch.inf), torch.full(points.shape[1:], -torch.inf)
    return torch.stack(kept).amin(0), torch.stack(kept).amax(0)


def _check(device, points, size, start=None, end=None):
    low, high = _bounds(points)
    wanted = grid_cluster_reference(
        points, size, low if start is None else start, high if end is None else end
    )
    moved = [None if t is None else t.to(device) for t in (points, size, start, end)]
    got = grid_cluster(*moved)
    assert got.device.type == device
    assert_same_bits(got, wanted)
    return got


def _size(name, dim):
    size = {"near_origin": 0.01, "tiny": 2.0**-63, "huge": 2.0**63}.get(name, 0.3)
    return torch.linspace(size, size * 1.7, dim)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLOUDS)
def test_sizes(device, name, size):
    points = cloud(name, size)
    got = _check(device, points, _size(name, 3))
    assert bool((got == -1).any()) == (name == "not_finite")


@pytest.mark.parametrize("dim", [1, 2, 4, 5, 17])
@pytest.mark.parametrize("name", ["random", "lattice", "not_finite"])
def test_dimensions(device, name, dim):
    _check(device, cloud(name, 100, dim), _size(name, dim))


@pytest.mark.parametrize("name", CLOUDS)
def test_points_outside_the_grid_are_not_clamped(device, name):
    points = cloud(name, 200)
    size = _size(name, 3)
    got = _check(device, points, size, start=points[7].nan_to_num(0.0, 0.0, 0.0), end=size * 3)
    assert (got.min() < 0) == (name != "all_equal")


def test_first_coordinate_runs_fastest(device):
    pos = torch.tensor([[0.0, 0.0], [11.0, 9.0], [2.0, 8.0], [2.0, 2.0], [8.0, 3.0]], device=device)
    size = torch.tensor([5.0, 5.0], device=device)
    # three columns: 0 ... 11 is cut at 5 and 10
    assert grid_cluster(pos, size).tolist() == [0, 5, 3, 0, 1]
    end = torch.tensor([19.0, 19.0], device=device)
    assert grid_cluster(pos, size, end=end).tolist() == [0, 6, 4, 0, 1]
    start = torch.tensor([-6.0, 0.0], device=device)  # one column more to the left
    assert grid_cluster(pos, size, start).tolist() == [1, 7, 5, 1, 2]


def test_numbers_are_cut_toward_zero_on_both_sides(device):
    pos = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5], device=device)
    one = torch.ones(1, device=device)
    assert grid_cluster(pos, one, one * 0).tolist() == [-2, -1, 0, 0, 1]
    assert grid_cluster(pos, -one, one * 0).tolist() == [2, 1, 0, 0, -1]


def test_every_step_is_rounded(device):
    """Quotients a rounding away from an integer: 0.3 has no float, 3 * 0.1f / 0.1f is 3."""
    steps = torch.arange(600, dtype=torch.float64)
    pos = torch.cat(
        [(steps * size).float() + shift * 2.0**-24 for size in (0.1, 0.3, 0.7) for shift in (0, 1)]
    )
    for size in (0.1, 0.3, 0.7):
        _check(device, pos[:, None], torch.tensor([size]), torch.zeros(1))
    exact = (pos[:600].double() / torch.tensor(0.1).double()).long()
    rounded = grid_cluster(pos[:600].to(device), torch.tensor([0.1], device=device))
    assert (rounded.cpu() != exact).any()  # so that another rounding would be seen


@pytest.mark.usefixtures("math_mode")
@pytest.mark.parametrize("name", CLOUDS)
def test_math_modes(name):
    points = cloud(name, 300)
    _check("mps", points, _size(name, 3))
    _check("mps", points, torch.tensor([0.1, 0.0, 0.7]))
    _check("mps", points, _size(name, 3), points[5].nan_to_num(0.0), points[6])


@pytest.fixture(params=[(False, 310), (True, 310), (True, 320)], ids=["safe", "fast", "fast-3.2"])
def math_mode(request, monkeypatch):
    if not mps_emulator.is_installed():
        pytest.skip("the math mode of a real GPU belongs to the process")
    from mps_emulator.shader import options

    fast, version = request.param
    monkeypatch.setattr(options, "fast_math", fast)
    monkeypatch.setattr(options, "metal_version", version)
    monkeypatch.setattr(kernels.SOURCE, "_kernels", {})


NUMBERS = [0.0, -0.0, 1.0, -3.5, 2.0**-127, 2.0**-126, 2.0**24 + 2, 2.0**62, -(2.0**63), 2.0**63]
NUMBERS += [2.0**127, 3e38, -3e38, torch.inf, -torch.inf, torch.nan]


def test_numbers_of_every_kind(device):
    """All of them as coordinate, start, size and end: no id depends on undefined conversion."""
    pos = torch.tensor(NUMBERS)
    pos = torch.stack((pos, torch.zeros_like(pos)), dim=1)
    for size in (1.0, -0.5, 0.0, 2.0**-127, 2.0**-126, 2.0**100, torch.inf, torch.nan):
        for number in (0.0, 2.0**-126, -3e38, torch.inf, torch.nan):
            for low, high in ((number, 5.0), (0.0, number)):
                start, end = torch.tensor([low, 0.0]), torch.tensor([high, 1.0])
                _check(device, pos, torch.tensor([size, 1.0]), start, end)
    _check(device, pos[:, :1], torch.tensor([1.0]))


def test_no_finite_point_and_no_size(device):
    pos = torch.tensor([[torch.nan, 0.0], [0.0, torch.inf]])
    assert _check(device, pos, torch.ones(2)).tolist() == [-1, -1]
    assert _check(device, torch.rand(3, 2), torch.tensor([1.0, 0.0])).tolist() == [-1] * 3
    assert _check(device, torch.rand(3, 2), torch.tensor([torch.nan, 1.0])).tolist() == [-1] * 3


def test_a_point_that_is_not_finite_does_not_move_the_grid(device):
    pos = torch.tensor([[3.0, 4.0], [-100.0, torch.nan], [5.0, 6.0], [torch.inf, 5.0]])
    assert _check(device, pos, torch.ones(2)).tolist() == [0, -1, 8, -1]


def test_the_end_of_the_last_coordinate_is_not_used(device):
    pos, size, start = torch.rand(9, 2), torch.full((2,), 0.3), torch.zeros(2)
    wanted = _check(device, pos, size, start, torch.ones(2))
    assert torch.equal(_check(device, pos, size, start, torch.tensor([1.0, torch.nan])), wanted)
    assert (_check(device, pos, size, start, torch.tensor([torch.nan, 1.0])) == -1).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_are_divided_exactly(device, dtype):
    low = 0 if dtype == torch.uint8 else -100
    rng = torch.Generator().manual_seed(1)
    pos = torch.randint(low, 100, (300, 3), generator=rng).to(dtype)
    size = torch.tensor([7, 3, 1], dtype=dtype)
    wanted = grid_cluster_reference(pos.long(), size.long(), pos.amin(0).long(), pos.amax(0).long())
    assert_same_bits(grid_cluster(pos.to(device), size.to(device)), wanted)
    start, end = pos[3], pos[4]
    wanted = grid_cluster_reference(pos.long(), size.long(), start.long(), end.long())
    moved = [t.to(device) for t in (pos, size, start, end)]
    assert_same_bits(grid_cluster(*moved), wanted)


def test_large_integers(device):
    numbers = [0, 1, -1, 2**53 + 1, 2**62, LOW, LOW + 1, HIGH]
    pos = torch.tensor([[p, 0] for p in numbers])
    for size in (1, -1, 0, 3, -7, 2**40, LOW, HIGH):
        for bound in numbers:
            for start, end in (([bound, 0], [9, 0]), ([0, 0], [bound, 0])):
                _check(device, pos, torch.tensor([size, 1]), torch.tensor(start), torch.tensor(end))
    # beyond what float32 and float64 tell apart
    assert _check(device, torch.tensor([[2**60], [2**60 + 1]]), torch.tensor([1])).tolist() == [
        0,
        1,
    ]


def test_sums_wrap_around(device):
    pos = torch.tensor([[2**40, 2**40, 2**40]])
    got = _check(device, pos, torch.ones(3).long(), torch.zeros(3).long(), pos[0])
    assert got.item() != 2**40 * (1 + (2**40 + 1) + (2**40 + 1) ** 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(device, dtype):
    pos, size = cloud("random", 200).to(dtype), torch.full((3,), 0.3, dtype=dtype)
    wanted = grid_cluster(pos.float().to(device), size.float().to(device))
    assert_same_bits(grid_cluster(pos.to(device), size.to(device)), wanted)


def test_dtypes_are_promoted(device):
    pos = torch.randint(-50, 50, (100, 2), generator=torch.Generator().manual_seed(3)).to(device)
    size = torch.tensor([0.7, 3.5], device=device)
    wanted = grid_cluster(pos.float(), size)
    assert torch.equal(grid_cluster(pos, size), wanted)
    ends = [bound.to(device) for bound in (pos.cpu().amin(0), pos.cpu().amax(0))]
    assert torch.equal(grid_cluster(pos.float(), size, *ends), wanted)
    assert torch.equal(
        grid_cluster(pos, size.half()), grid_cluster(pos.float(), size.half().float())
    )
    four = torch.tensor([4, 4], device=device)
    half = torch.tensor([0.5, 0.5], device=device)
    assert torch.equal(
        grid_cluster(pos, four, start=half), grid_cluster(pos.float(), four.float(), start=half)
    )


def test_float64_is_computed_in_float64():
    pos = cloud("random", 500).double() + torch.rand(500, 3, dtype=torch.float64) * 2.0**-30
    _check("cpu", pos, torch.full((3,), 0.1, dtype=torch.float64))
    pos = torch.tensor([0.0, 1 - 1e-12, 1.0], dtype=torch.float64)
    assert grid_cluster(pos, torch.tensor([1.0])).tolist() == [0, 0, 1]
    assert grid_cluster(pos.float(), torch.tensor([1.0])).tolist() == [0, 1, 1]
    for number in (5e-324, 1e308, -1e308, torch.inf, torch.nan):
        wide = torch.tensor([0.0, 1e308, -1e308, number], dtype=torch.float64)
        _check("cpu", wide[:, None], torch.tensor([0.5], dtype=torch.float64), wide[:1], wide[1:2])


def test_ranks(device):
    pos = torch.rand(6, 2, 3, device=device)
    size = torch.full((6,), 0.4, device=device)
    assert torch.equal(grid_cluster(pos, size), grid_cluster(pos.reshape(6, 6), size))
    assert torch.equal(grid_cluster(pos[:, 0, 0], size[:1]), grid_cluster(pos[:, 0, :1], size[:1]))


def test_strided_views(device):
    wide = torch.rand(80, 6, device=device)
    numbers = torch.tensor([0.3, 9.0, 0.2, 9.0, 0.1], device=device)
    wanted = grid_cluster(wide[::2, ::2].clone(), numbers[::2].clone())
    assert torch.equal(grid_cluster(wide[::2, ::2], numbers[::2]), wanted)
    by_column = wide[::2, ::2].t().contiguous().t()
    assert torch.equal(grid_cluster(by_column, numbers[::2]), wanted)
    low, high = wide.amin(0)[::2], wide.amax(0)[::2]
    got = grid_cluster(wide[::2, ::2], numbers[::2], low, high)
    assert torch.equal(got, grid_cluster(wide[::2, ::2], numbers[::2], low.clone(), high.clone()))
    assert torch.equal(
        grid_cluster(wide[7:, 1:4], numbers[2:]),
        grid_cluster(wide[7:, 1:4].clone(), numbers[2:].clone()),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_no_points(device, dtype):
    for shape, dim in (((0, 3), 3), ((0,), 1), ((0, 2, 2), 4)):
        got = grid_cluster(
            torch.empty(shape, dtype=dtype, device=device), torch.ones(dim, device=device)
        )
        assert got.shape == (0,)
        assert got.dtype == torch.int64
        assert got.device.type == device


@pytest.mark.parametrize(
    ("points", "size"),
    [
        (cloud("not_finite", 1100), torch.full((3,), 0.2)),
        (torch.arange(3000).view(-1, 3), torch.tensor([5, 6, 7])),
    ],
)
def test_several_dispatches(monkeypatch, points, size):
    launches = []

    def counted(*arguments, **grid):
        launches.append(grid)
        dispatch.launch(*arguments, **grid)

    monkeypatch.setattr(kernels, "STEPS_PER_DISPATCH", 2**16)
    monkeypatch.setattr(kernels, "launch", counted)
    _check("mps", points, size)
    assert len(launches) > 2


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"pos": [[0.0]]}, TypeError, "pos must be a torch.Tensor, got list"),
        ({"pos": torch.rand(4, 3) > 0.5}, TypeError, "pos must be a tensor of floats or integers"),
        ({"pos": torch.tensor(1.0)}, ValueError, r"pos must be of shape \(N, ...\)"),
        ({"pos": torch.rand(4, 0)}, ValueError, r"pos must be of shape \(N, D\) with D >= 1"),
        ({"size": 0.3}, TypeError, "size must be a torch.Tensor, got float"),
        ({"size": torch.tensor(0.3)}, ValueError, r"size must be of shape \[3\].*got shape \[\]"),
        ({"size": torch.rand(2)}, ValueError, r"size must be of shape \[3\], one number a coord"),
        ({"size": torch.rand(3, 1)}, ValueError, r"size must be of shape \[3\]"),
        ({"size": torch.ones(3).cfloat()}, TypeError, "size must be a tensor of floats"),
        ({"start": torch.rand(4)}, ValueError, r"start must be of shape \[3\]"),
        ({"end": torch.rand(1)}, ValueError, r"end must be of shape \[3\]"),
        ({"end": [1.0, 1.0, 1.0]}, TypeError, "end must be a torch.Tensor"),
        ({"pos": torch.rand(4, 3).to_sparse()}, TypeError, "pos must be a dense"),
    ],
)
def test_bad_arguments(device, arguments, error, text):
    if device == "mps" and "dense" in text:
        pytest.skip("no sparse tensors there")
    good = {"pos": torch.rand(4, 3), "size": torch.ones(3)}
    moved = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in {**good, **arguments}.items()
    }
    with pytest.raises(error, match=f"grid_cluster: {text}"):
        grid_cluster(**moved)


def test_operator_checks_too(device):
    with pytest.raises(ValueError, match=r"grid_cluster: size must be of shape \[3\]"):
        OP(torch.rand(4, 3, device=device), torch.ones(2, device=device))


@pytest.mark.parametrize("name", ["size", "start", "end"])
def test_mixed_devices(device, name):
    other = "cpu" if device == "mps" else "mps"
    arguments = {"pos": torch.rand(4, 3, device=device), "size": torch.ones(3, device=device)}
    arguments[name] = torch.ones(3, device=other)
    with pytest.raises(ValueError, match=f"{name} must be on the device of pos .*move one of them"):
        grid_cluster(**arguments)


@pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)
@pytest.mark.parametrize("pos", [torch.rand(50, 3), torch.arange(60).view(20, 3)])
def test_nothing_is_read_back(pos):
    pos = pos.to("mps")
    size = torch.full((3,), 2, dtype=pos.dtype, device="mps")
    grid_cluster(pos, size)  # compiles
    with mps_emulator.count_readbacks() as reads:
        grid_cluster(pos, size)
        grid_cluster(pos, size, pos[0], pos[1])
    assert reads.count == 0, reads


def test_default_dtype_and_device_change_nothing(device):
    pos, size = cloud("not_finite", 90).to(device), torch.full((3,), 0.3, device=device)
    wanted = grid_cluster(pos, size)
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("cpu" if device == "mps" else "mps")
        got = grid_cluster(pos, size)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert torch.equal(got, wanted)


def test_no_gradient(device):
    pos = torch.rand(5, 3, device=device, requires_grad=True)
    size = torch.ones(3, device=device, requires_grad=True)
    assert not grid_cluster(pos, size, pos[0]).requires_grad


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_fullgraph(device, dynamic):
    def call(pos, size):
        return grid_cluster(pos * 2, size) + grid_cluster(pos, size, size, end=size * 3)

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    size = torch.full((3,), 0.3, device=device)
    for count in (30, 41):
        pos = cloud("random", count).to(device)
        assert torch.equal(compiled(pos, size), call(pos, size))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(device):
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if device == "cpu":  # knows no MPS
        checks.append("test_autograd_registration")
    pos, size = torch.rand(9, 3, device=device), torch.ones(3, device=device)
    for arguments in ((pos, size), (pos.requires_grad_(), size, pos[0].detach(), None)):
        torch.library.opcheck(OP.default, arguments, test_utils=checks)
