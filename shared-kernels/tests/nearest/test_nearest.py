"""The nearest point of the same cloud: both devices against the reference, exactly."""

import pytest
import torch

import mps_emulator
from mps_pointops import flat
from mps_pointops._rules import Rule
from mps_pointops.ops.nearest.reference import nearest_reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud, oracles

OP = torch.ops.mps_pointops.flat_nearest
FMA_XYZ = Rule.FMA_XYZ.value
# numbers 1 and 4 are not used
QUERIES = (9, 0, 4, 33, 0, 1)
POINTS = (40, 0, 1, 130, 0, 33)


def _batch(sizes):
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def _ptr(sizes):
    return torch.tensor((0, *sizes)).cumsum(0)


def _ragged(name, dim=3):
    def points(sizes, seed):
        return torch.cat([cloud(name, n, dim, seed + b) for b, n in enumerate(sizes) if n])

    x, y = points(QUERIES, 0), points(POINTS, 50)
    x[:4], x[-1:] = y[:4], y[-1:]
    return x, y, _batch(QUERIES), _batch(POINTS)


@pytest.mark.parametrize("rule", ["fma_xyz", "separate", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
def test_clouds(device, name, rule):
    data = _ragged(name)
    got = flat.nearest(*(t.to(device) for t in data), rule=rule)
    assert got.device.type == device
    assert_same_bits(got, nearest_reference(*data, Rule[rule.upper()]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["random", "duplicates", "not_finite"])
def test_one_cloud(device, name, size):
    x, y = cloud(name, 33, seed=1), cloud(name, size)
    x[:5] = y[torch.arange(5) % size]
    zeros = torch.zeros(max(33, size), dtype=torch.int64)
    wanted = nearest_reference(x, y, zeros[:33], zeros[:size])
    assert_same_bits(flat.nearest(x.to(device), y.to(device)), wanted)


@pytest.mark.parametrize("name", ["random", "lattice", "not_finite", "huge"])
def test_reference(name):
    x, y = cloud(name, 9, seed=1), cloud(name, 40)
    x[:3] = y[:3]
    zeros = torch.zeros(40, dtype=torch.int64)
    _, wanted = oracles.knn(x.numpy(), y.numpy(), 1, "fma_xyz")
    assert nearest_reference(x, y, zeros[:9], zeros).tolist() == [row[0] for row in wanted]


@pytest.mark.parametrize("dim", [1, 2, 5, 17])
def test_dimensions(device, dim):
    data = _ragged("random", dim)
    assert_same_bits(flat.nearest(*(t.to(device) for t in data)), nearest_reference(*data))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("name", ["lattice", "not_finite"])
def test_ptrs_tell_the_same_clouds(device, name, dtype):
    x, y, bx, by = (t.to(device) for t in _ragged(name))
    ptrs = (_ptr(QUERIES).to(device, dtype), _ptr(POINTS).to(device, dtype))
    assert_same_bits(OP(x, y, None, None, *ptrs, FMA_XYZ), flat.nearest(x, y, bx, by))


def test_a_cloud_of_a_ptr_may_lack_queries(device):
    x, y = torch.tensor([0.0, 1.0]).to(device), torch.tensor([5.0, 0.0, 2.0]).to(device)
    ptr_x, ptr_y = torch.tensor([0, 1, 1, 2]).to(device), torch.tensor([0, 1, 2, 3]).to(device)
    assert OP(x, y, None, None, ptr_x, ptr_y, FMA_XYZ).tolist() == [0, 2]


def test_ties_go_to_the_lowest_index(device):
    y = torch.zeros(3000, 3, device=device)
    y[:7] = 1.0
    x = torch.zeros(2, 3, device=device)
    assert flat.nearest(x, y).tolist() == [7, 7]
    y[1024:] = 0.25  # all that are left, and 1024 is the first of its lane
    y[7:1024] = -0.25
    assert flat.nearest(x, y).tolist() == [7, 7]


def test_points_that_are_not_finite(device):
    nan, inf = torch.nan, torch.inf
    x = torch.tensor([[0.0, 0.0], [nan, 0.0], [0.0, inf], [1.0, 1.0]], device=device)
    y = torch.tensor([[nan, 0.0], [5.0, 5.0], [0.0, -inf], [nan, nan]], device=device)
    assert flat.nearest(x, y).tolist() == [1, -1, -1, 1]
    batch_x = torch.tensor([0, 0, 0, 3], device=device)
    batch_y = torch.tensor([0, 0, 0, 3], device=device)
    assert flat.nearest(x, y, batch_x, batch_y).tolist() == [1, -1, -1, -1]


def test_overflowing_distances(device):
    x = torch.tensor([[3e38], [-3e38]], device=device)
    y = torch.tensor([[-3e38], [-2e38], [0.0]], device=device)
    assert flat.nearest(x, y).tolist() == [0, 0]


def test_one_missing_batch_is_cloud_zero(device):
    x, y = torch.rand(5, 3, device=device), torch.rand(7, 3, device=device)
    zeros = torch.zeros(7, dtype=torch.int64, device=device)
    wanted = flat.nearest(x, y)
    assert torch.equal(flat.nearest(x, y, batch_x=zeros[:5]), wanted)
    assert torch.equal(flat.nearest(x, y, batch_y=zeros), wanted)
    ones = zeros + 1
    with pytest.raises(
        ValueError, match=r"batch_x must be of clouds that batch_y has too.*cloud 1"
    ):
        flat.nearest(x, y, batch_x=ones[:5])
    with pytest.raises(
        ValueError, match=r"batch_x must be of clouds that batch_y has too.*cloud 0"
    ):
        flat.nearest(x, y, batch_y=ones)


@pytest.mark.parametrize(
    ("batch_x", "batch_y", "text"),
    [
        ([0, 2, 1], [0, 1, 2], "batch_x must be sorted in ascending order.*sort the points"),
        ([0, 1, 2], [1, 0, 2], "batch_y must be sorted in ascending order"),
        ([-1, 0, 0], [-1, 0, 0], "batch_x must be cloud numbers from 0, got -1"),
        ([0, 1, 2], [0, 0, 2], "batch_x must be of clouds that batch_y has too.*a cloud 1$"),
        ([0, 2, 2], [0, 1, 2], "batch_y must be of clouds that batch_x has too.*a cloud 1$"),
        ([0, 0, 0], [0, 0, 2**40], f"batch_y must be of clouds .*a cloud {2**40}$"),
    ],
)
def test_clouds_that_do_not_fit(device, batch_x, batch_y, text):
    x = torch.rand(3, 2, device=device)
    bx, by = (torch.tensor(b, device=device) for b in (batch_x, batch_y))
    with pytest.raises(ValueError, match=text):
        flat.nearest(x, x, bx, by)


@pytest.mark.parametrize(
    ("ptr_x", "ptr_y", "text"),
    [
        ([0, 1, 3], [0, 3, 3], "ptr_y must be of at least one point in every cloud .*in cloud 1"),
        ([0, 2, 4], [0, 1, 3], "ptr_x must be ascending from 0 to 3, got 0 to 4"),
        ([0, 1, 3], [1, 2, 3], "ptr_y must be ascending from 0 to 3, got 1 to 3"),
        (
            [0, 2, 1, 3],
            [0, 1, 2, 3],
            "ptr_x must be ascending from 0 to 3, got values that descend",
        ),
        ([0, 3], [0, 1, 3], "ptr_y must be of the length of ptr_x"),
        ([0], [0], "ptr_x must be ascending from 0 to 3, got 0 to 0"),
        ([0, 3], None, "ptr_y must be given, as ptr_x is"),
        (None, [0, 3], "ptr_x must be given, as ptr_y is"),
        ([0, 10**9, 3], [0, 10**9, 3], "ptr_x must be ascending"),
        ([0, -5, 3], [0, -5, 3], "ptr_x must be ascending"),
    ],
)
def test_ptrs_that_do_not_fit(device, ptr_x, ptr_y, text):
    x = torch.rand(3, 2, device=device)
    ptrs = [None if p is None else torch.tensor(p, device=device) for p in (ptr_x, ptr_y)]
    with pytest.raises(ValueError, match=f"^nearest: {text}"):
        OP(x, x, None, None, *ptrs, FMA_XYZ)


def test_ptr_and_batch(device):
    x, zeros = torch.rand(3, 2, device=device), torch.zeros(3, dtype=torch.int64, device=device)
    ptr = torch.tensor([0, 3], device=device)
    with pytest.raises(ValueError, match="ptr_x must be None when a batch vector is given"):
        OP(x, x, zeros, None, ptr, ptr, FMA_XYZ)
    with pytest.raises(TypeError, match=r"ptr_y must be int64 or int32 of shape \[B \+ 1\]"):
        OP(x, x, None, None, ptr, ptr.float(), FMA_XYZ)


def test_batch_numbers_of_every_kind(device):
    x, y, bx, by = (t.to(device) for t in _ragged("random"))
    wanted = flat.nearest(x, y, bx, by)
    assert torch.equal(flat.nearest(x, y, bx.int(), by), wanted)
    assert torch.equal(flat.nearest(x, y, bx * 2**40, by * 2**40), wanted)


def test_empty_sides(device):
    x, none = torch.rand(5, 3, device=device), torch.rand(0, 3, device=device)
    zeros = torch.zeros(5, dtype=torch.int64, device=device)
    ptr = torch.tensor([0, 0], device=device)
    for got in (
        flat.nearest(none, x),
        flat.nearest(none, none),
        flat.nearest(none, x, zeros[:0], zeros),
        flat.nearest(none, none, zeros[:0], zeros[:0]),
        OP(none, none, None, None, ptr, ptr, FMA_XYZ),
        OP(none, none, None, None, ptr[:1], ptr[:1], FMA_XYZ),
        OP(none, x, None, None, ptr, ptr + torch.tensor([0, 5], device=device), FMA_XYZ),
    ):
        assert got.shape == (0,)
        assert got.dtype == torch.int64
        assert got.device.type == device
    for batches in ((), (zeros, None), (zeros, zeros[:0])):
        with pytest.raises(ValueError, match="y must be of at least one point"):
            flat.nearest(x, none, *batches)


def test_ranks_and_strides(device):
    x, y = torch.rand(6, 2, 2, device=device), torch.rand(9, 4, device=device)
    wanted = flat.nearest(x.reshape(6, 4), y)
    assert torch.equal(flat.nearest(x, y), wanted)
    assert torch.equal(flat.nearest(x[:, 0, 0], y[:, 0]), flat.nearest(x[:, 0, :1], y[:, :1]))
    wide = torch.rand(20, 8, device=device)
    got = flat.nearest(wide[::3, 1::2], wide[1::2, ::2])
    assert torch.equal(got, flat.nearest(wide[::3, 1::2].clone(), wide[1::2, ::2].clone()))
    batch = torch.tensor([0, 9, 0, 9, 0, 9, 1, 9, 1, 9, 1, 9], device=device)[::2]
    got = flat.nearest(x, x, batch, batch)
    assert torch.equal(got, torch.arange(6, device=device))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(device, dtype):
    x, y, bx, by = (t.to(device) for t in _ragged("random"))
    x, y = x.to(dtype), y.to(dtype)
    assert torch.equal(flat.nearest(x, y, bx, by), flat.nearest(x.float(), y.float(), bx, by))
    assert torch.equal(flat.nearest(x, y.float(), bx, by), flat.nearest(x, y, bx, by))


def test_float64_is_searched_in_float64():
    y = torch.tensor([[0.0], [1.0], [1 + 1e-9]], dtype=torch.float64)
    x = torch.tensor([[1 + 9e-10]], dtype=torch.float64)
    assert flat.nearest(x, y).tolist() == [2]
    assert flat.nearest(x.float(), y.float()).tolist() == [1]
    zeros = torch.zeros(3, dtype=torch.int64)
    assert flat.nearest(x, y, zeros[:1], zeros).tolist() == [2]
    assert flat.nearest(x, y.float()).tolist() == [1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers(device, dtype):
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randint(200, (40, 2), generator=rng), torch.randint(200, (90, 2), generator=rng)
    d2 = (x[:, None] - y).square().sum(-1)
    wanted = torch.argsort(d2, dim=1, stable=True)[:, 0]
    assert_same_bits(flat.nearest(x.to(dtype).to(device), y.to(dtype).to(device)), wanted)
    if dtype == torch.int64:  # far from the origin too
        assert_same_bits(flat.nearest((x + 2**60).to(device), (y + 2**60).to(device)), wanted)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"x": [[0.0]]}, TypeError, "x must be a torch.Tensor, got list"),
        ({"y": None}, TypeError, "y must be a torch.Tensor, got NoneType"),
        ({"batch_x": [0, 0]}, TypeError, "batch_x must be a torch.Tensor"),
        ({"x": torch.rand(4, 3) > 0.5}, TypeError, "x must be .*bool"),
        ({"x": torch.tensor(1.0)}, ValueError, "x must be of shape"),
        ({"x": torch.rand(4, 0)}, ValueError, "y must be of the dimension D of x"),
        ({"y": torch.rand(4, 2)}, ValueError, r"y must be of the dimension D of x \(3\), got 2"),
        ({"y": torch.ones(4, 3).int()}, TypeError, "y must be of the kind of x.*convert one"),
        ({"batch_x": torch.zeros(3).long()}, ValueError, r"batch_x must be of shape \[4\]"),
        ({"batch_y": torch.zeros(4)}, TypeError, "batch_y must be int64 or int32"),
        ({"rule": "cosine"}, ValueError, "rule must be"),
    ],
)
def test_bad_arguments(device, arguments, error, text):
    good = {"x": torch.rand(4, 3), "y": torch.rand(4, 3)}
    moved = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in {**good, **arguments}.items()
    }
    with pytest.raises(error, match=f"^nearest: {text}"):
        flat.nearest(**moved)


def test_sparse_points():
    x = torch.rand(4, 3)
    with pytest.raises(TypeError, match="y must be a dense"):
        flat.nearest(x, x.to_sparse())


@pytest.mark.parametrize("rule", [Rule.FMA_YXZ.value, 3, 99])
def test_rules_that_have_no_meaning(device, rule):
    x = torch.rand(4, 2, device=device)
    with pytest.raises(ValueError, match=r"^nearest: rule must be"):
        OP(x, x, None, None, None, None, rule)


@pytest.mark.parametrize("name", ["y", "batch_x", "batch_y"])
def test_mixed_devices(device, name):
    other = "cpu" if device == "mps" else "mps"
    zeros = torch.zeros(4, dtype=torch.int64, device=device)
    data = {"x": torch.rand(4, 3, device=device), "y": torch.rand(4, 3, device=device)}
    data.update(batch_x=zeros, batch_y=zeros)
    data[name] = data[name].to(other)
    with pytest.raises(ValueError, match=f"^nearest: {name} must be on the device of"):
        flat.nearest(**data)


@pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)
def test_reads():
    x, y, bx, by = (t.to("mps") for t in _ragged("random"))
    ptr_x, ptr_y = _ptr(QUERIES).to("mps"), _ptr(POINTS).to("mps")
    for call, count in (
        (lambda: flat.nearest(x, y), 0),
        (lambda: flat.nearest((x * 9).int(), (y * 9).int()), 0),
        (lambda: flat.nearest(x[:0], y), 0),
        (lambda: flat.nearest(x, y, bx, by), 1),
        (lambda: flat.nearest(x, y, bx * 0, None), 1),
        (lambda: OP(x, y, None, None, ptr_x, ptr_y, FMA_XYZ), 1),
    ):
        call()  # compiles
        with mps_emulator.count_readbacks() as reads:
            call()
        assert reads.count == count, reads


def test_default_dtype_and_device_change_nothing(device):
    data = [t.to(device) for t in _ragged("random")]
    wanted = flat.nearest(*data)
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("cpu" if device == "mps" else "mps")
        got = flat.nearest(*data)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert torch.equal(got, wanted)


def test_no_gradient(device):
    x = torch.rand(5, 3, device=device, requires_grad=True)
    assert not flat.nearest(x, x).requires_grad


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_fullgraph(device, dynamic):
    def call(x, y, batch_x, batch_y):
        return flat.nearest(x, y, batch_x, batch_y), flat.nearest(x * 2, y)

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    x, y, bx, by = (t.to(device) for t in _ragged("random"))
    for rows in (len(x), 12):  # clouds 0 and 2, or all
        kept = by <= bx[rows - 1]
        data = (x[:rows], y[kept], bx[:rows], by[kept])
        for got, wanted in zip(compiled(*data), call(*data), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(device):
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if device == "cpu":  # knows no MPS
        checks.append("test_autograd_registration")
    x, y, bx, by = (t.to(device) for t in _ragged("random"))
    ptrs = _ptr(QUERIES).to(device), _ptr(POINTS).to(device)
    for arguments in (
        (x, y, None, None, None, None, FMA_XYZ),
        (x, y, bx, by, None, None, FMA_XYZ),
        (x.requires_grad_(), y, None, None, *ptrs, 0),
    ):
        torch.library.opcheck(OP.default, arguments, test_utils=checks)
