"""How clouds are told apart: ptrs, batch vectors, their number, and what is refused."""

import pytest
import torch

import mps_emulator
from mps_pointops import _flat_search, flat
from pointops_testing import assert_same_bits, cloud

OPS = torch.ops.mps_pointops
# cloud 1 has no points, cloud 3 no queries, cloud 4 neither
POINTS, QUERIES = (33, 0, 5, 7, 0, 120, 1), (9, 4, 6, 0, 0, 40, 3)
FIRST = {"first": (0, 0, 4, 5), "last": (4, 5, 0, 0), "one": (6,), "none": ()}


def _sizes(sizes, device, dtype=torch.int64):
    numbers = torch.tensor(sizes, dtype=torch.int64)
    batch = torch.repeat_interleave(torch.arange(len(sizes)), numbers)
    ptr = torch.cat((numbers.new_zeros(1), numbers.cumsum(0)))
    return batch.to(device, dtype), ptr.to(device, dtype)


def _data(device, points=POINTS, queries=QUERIES, dtype=torch.int64):
    x, y = cloud("lattice", sum(points)), cloud("lattice", sum(queries), seed=1)
    bx, px = _sizes(points, device, dtype)
    by, py = _sizes(queries, device, dtype)
    return x.to(device), y.to(device), bx, by, px, py


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_ptrs_are_batch_vectors(device, dtype):
    x, y, bx, by, px, py = _data(device, dtype=dtype)
    for k in (1, 6, 200):
        got = flat.knn(x, y, k, ptr_x=px, ptr_y=py)
        assert_same_bits(got, flat.knn(x, y, k, bx, by))
    for cap in (1, 6, None):
        got = flat.radius(x, y, 0.8, max_num_neighbors=cap, ptr_x=px, ptr_y=py)
        assert_same_bits(got, flat.radius(x, y, 0.8, bx, by, cap))
        assert got.shape[1]


@pytest.mark.parametrize("points", FIRST)
@pytest.mark.parametrize("queries", FIRST)
def test_empty_clouds_at_the_ends(device, points, queries):
    points, queries = FIRST[points], FIRST[queries]
    longest = max(len(points), len(queries))
    points = points + (0,) * (longest - len(points))
    queries = queries + (0,) * (longest - len(queries))
    x, y = torch.rand(sum(points), 2, device=device), torch.rand(sum(queries), 2, device=device)
    bx, px = _sizes(points, device)
    by, py = _sizes(queries, device)
    got = flat.knn(x, y, 3, ptr_x=px, ptr_y=py)
    assert_same_bits(got, flat.knn(x, y, 3, bx, by))
    assert got.shape[1] == sum(min(n, 3) * m for n, m in zip(points, queries, strict=True))
    got = flat.radius(x, y, 9.0, ptr_x=px, ptr_y=py)
    assert got.shape[1] == sum(n * m for n, m in zip(points, queries, strict=True))


def test_a_strided_ptr(device):
    x, y, _, _, px, py = _data(device)
    px, py = (torch.stack((p, -p), dim=1)[:, 0] for p in (px, py))
    assert not px.is_contiguous()
    assert_same_bits(
        flat.knn(x, y, 3, ptr_x=px, ptr_y=py),
        flat.knn(x, y, 3, ptr_x=px.contiguous(), ptr_y=py.contiguous()),
    )


def test_many_clouds_in_one_pass(device):
    clouds, size = 32, 256 if device == "cpu" else 64
    points = [cloud("random", size, seed=b) for b in range(clouds)]
    x = torch.cat(points).to(device)
    batch = torch.arange(clouds, device=device).repeat_interleave(size)
    got = flat.knn(x, x, 4, batch, batch)
    wanted = flat.knn(points[7].to(device), points[7].to(device), 4)
    assert torch.equal(got[:, 7 * size * 4 : 8 * size * 4] - 7 * size, wanted)


@pytest.mark.parametrize("search", ["knn", "radius"])
@pytest.mark.parametrize(
    ("ptrs", "error", "text"),
    [
        (([0, 2, 4], None), ValueError, "ptr_y must be given, as ptr_x is, got None"),
        ((None, [0, 4]), ValueError, "ptr_x must be given, as ptr_y is, got None"),
        (([0, 2, 4], [0, 4]), ValueError, r"ptr_y must be of the length of ptr_x \(3\), got 2"),
        (([0, 2, 3], [0, 2, 4]), ValueError, "ptr_x must be ascending from 0 to 4, got 0 to 3"),
        (([0, 2, 4], [1, 2, 4]), ValueError, "ptr_y must be ascending from 0 to 4, got 1 to 4"),
        (([0, 3, 2, 4], [0, 1, 2, 4]), ValueError, "ptr_x must be .*, got values that descend"),
        (([0, 9, -7, 4], [0, 1, 2, 4]), ValueError, "ptr_x must be .*, got values that descend"),
        (([0, 9], [0, 9]), ValueError, "ptr_x must be ascending from 0 to 4, got 0 to 9"),
        (([-(2**40), 4], [0, 4]), ValueError, "ptr_x must be ascending from 0 to 4"),
        (([0], [0]), ValueError, "ptr_x must be ascending from 0 to 4, got 0 to 0"),
        (([], []), TypeError, r"ptr_x must be int64 or int32 of shape \[B \+ 1\]"),
        (([0.0, 4.0], [0, 4]), TypeError, "ptr_x must be int64 or int32"),
        (([[0, 4]], [0, 4]), TypeError, r"of shape \[1, 2\]"),
    ],
)
def test_bad_ptrs(device, search, ptrs, error, text):
    x = torch.rand(4, 3, device=device)
    px, py = (p if p is None else torch.tensor(p, device=device) for p in ptrs)
    with pytest.raises(error, match=text):
        getattr(flat, search)(x, x, 2, ptr_x=px, ptr_y=py)


@pytest.mark.parametrize("search", ["knn", "radius"])
def test_bad_combinations(device, search):
    call, x = getattr(flat, search), torch.rand(4, 3, device=device)
    batch, ptr = torch.zeros_like(x[:, 0]).long(), torch.tensor([0, 4], device=device)
    with pytest.raises(ValueError, match="ptr_x must be None when a batch vector is given"):
        call(x, x, 2, batch_x=batch, ptr_x=ptr, ptr_y=ptr)
    with pytest.raises(ValueError, match="batch_size must be 1 without batch vectors, got 3"):
        call(x, x, 2, batch_size=3)
    with pytest.raises(ValueError, match=r"of the number of clouds of ptr_x \(1\), got 3"):
        call(x, x, 2, batch_size=3, ptr_x=ptr, ptr_y=ptr)
    with pytest.raises(TypeError, match=r"ptr_y must be a torch.Tensor, got list"):
        call(x, x, 2, ptr_x=ptr, ptr_y=[0, 4])
    with pytest.raises(TypeError, match="batch_size must be an integer"):
        call(x, x, 2, batch, batch, batch_size=1.5)
    other = "cpu" if device == "mps" else "mps"
    with pytest.raises(ValueError, match="ptr_x must be on the device of x"):
        call(x, x, 2, ptr_x=ptr.to(other), ptr_y=ptr)


@pytest.mark.parametrize("search", ["knn", "radius"])
def test_number_of_clouds(device, search):
    call, x = getattr(flat, search), torch.rand(4, 3, device=device)
    batch = torch.tensor([0, 0, 2, 2], device=device)
    wanted = call(x, x, 2, batch, batch)
    for size in (3, 8):
        assert torch.equal(call(x, x, 2, batch, batch, batch_size=size), wanted)
    assert torch.equal(call(x, x, 2, batch_size=1), call(x, x, 2))
    text = r"batch_{} must be below the number of clouds \(2\), got a cloud 2"
    with pytest.raises(ValueError, match=text.format("x")):
        call(x, x, 2, batch, batch, batch_size=2)
    with pytest.raises(ValueError, match=text.format("y")):
        call(x, x, 2, batch * 0, batch, batch_size=2)


def test_operators_refuse_a_missing_batch_vector(device):
    """Where the other side has several clouds; the public functions complete it with cloud 0."""
    x = torch.rand(4, 3, device=device)
    batch = torch.tensor([0, 0, 1, 1], device=device)
    rest = (None, None, 2, None, 1)
    with pytest.raises(ValueError, match="batch_y must be given, as batch_x has several clouds"):
        OPS.flat_knn(x, x, batch, None, *rest)
    with pytest.raises(ValueError, match="batch_x must be given, as batch_y has several clouds"):
        OPS.flat_radius(x, x, None, batch, None, None, 2.0, 32, None, False, 1)
    wanted = flat.knn(x, x, 2, rule="fma_xyz")
    assert torch.equal(OPS.flat_knn(x, x, batch * 0, None, *rest), wanted)
    # without points nothing is missing
    assert OPS.flat_knn(x, x[:0], batch, None, *rest).shape == (2, 0)
    assert OPS.flat_knn(x[:0], x, None, batch, *rest).shape == (2, 0)


def test_operators_check_numbers(device):
    x = torch.rand(4, 3, device=device)
    none = (None,) * 4
    for k in (-1, -(2**40)):
        with pytest.raises(ValueError, match="k must be at least 0"):
            OPS.flat_knn(x, x, *none, k, None, 1)
    with pytest.raises(ValueError, match="max_num_neighbors must be at least 0, got -1"):
        OPS.flat_radius(x, x, *none, 1.0, -1, None, False, 1)
    with pytest.raises(ValueError, match="batch_size must be at least 0"):
        OPS.flat_knn(x, x, x[:, 0].long(), None, None, None, 1, -1, 1)
    for rule in (-1, 17):
        with pytest.raises(ValueError, match="rule must be"):
            OPS.flat_knn(x, x, *none, 1, None, rule)
        with pytest.raises(ValueError, match="rule must be"):
            OPS.flat_fps(x, None, None, None, False, None, rule, 0)
    with pytest.raises(ValueError, match="unless there are 3 coordinates"):
        OPS.flat_knn(x[:, :2], x[:, :2], *none, 1, None, 2)
    with pytest.raises(ValueError, match="ties must be one of"):
        OPS.flat_fps(x, None, None, None, False, None, 0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_radii(device, dtype):
    if device == "mps" and dtype is torch.float64:
        pytest.skip("there is no float64 on MPS")
    x = torch.tensor([[0.0], [1.0], [3.0], [torch.nan], [torch.inf]], device=device, dtype=dtype)

    def found(r, cap=None):
        got = OPS.flat_radius(x, x[:1], None, None, None, None, r, cap, None, False, 1)
        return got[1].tolist()

    assert found(2.0) == found(-2.0) == [0, 1]
    assert found(float("nan")) == []
    assert found(0.0) == []
    for size in (float("inf"), 1e300):
        assert found(size) == found(-size) == [0, 1, 2]
    assert found(2.0, 0) == []
    assert found(2.0, 1) == [0]
    assert found(9.0, 2**31 - 1) == [0, 1, 2]


needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)


@needs_emulator
@pytest.mark.parametrize("slots", [0, 2**22])
@pytest.mark.parametrize(
    ("call", "reads"),
    [
        (lambda x, b, p: flat.knn(x, x, 3, b, b, batch_size=6), 1),
        (lambda x, b, p: flat.knn(x, x, 3, ptr_x=p, ptr_y=p), 1),
        (lambda x, b, p: flat.knn(x, x, 3, ptr_x=p.int(), ptr_y=p.int()), 1),
        (lambda x, b, p: flat.knn(x, x, 0, ptr_x=p, ptr_y=p), 1),
        (lambda x, b, p: flat.knn((x * 99).int(), (x * 99).int(), 3, b, b), 1),
        (lambda x, b, p: flat.knn(x, x, 3, b * 0), 1),
        (lambda x, b, p: OPS.flat_knn(x, x, b * 0, None, None, None, 3, 1, 1), 1),
        (lambda x, b, p: flat.radius(x, x, 0.5, b, b, None, batch_size=6), 1),
        (lambda x, b, p: flat.radius(x, x, 0.5, ptr_x=p, ptr_y=p), 1),
        (lambda x, b, p: flat.radius(x, x, 0.5, max_num_neighbors=0), 0),
        (lambda x, b, p: flat.fps((x * 99).int(), ratio=0.5), 0),
        (lambda x, b, p: flat.fps(x, ratio=torch.tensor([0.5])), 0),
        (lambda x, b, p: flat.fps(x, ratio=torch.tensor([0.5], dtype=torch.float64)), 0),
        (lambda x, b, p: flat.fps(x, b, torch.full((6,), 0.5), batch_size=6), 1),
        (lambda x, b, p: flat.fps(x, b, torch.tensor(0.5, dtype=torch.float64)), 1),
        (lambda x, b, p: flat.fps(x, b, torch.full((6,), 0.5, dtype=torch.float64)), 1),
        (lambda x, b, p: flat.fps(x, ptr=p, ratio=torch.tensor(0.5, dtype=torch.float64)), 1),
        (lambda x, b, p: OPS.flat_fps(x, None, p.cpu(), None, True, None, 1, 0), 1),  # of p.cpu()
    ],
)
def test_reads(call, reads, slots, monkeypatch):
    monkeypatch.setattr(_flat_search, "_SLOTS_UNCOUNTED", slots)
    x = torch.rand(60, 3, device="mps")
    batch, ptr = _sizes((20, 0, 10, 0, 0, 30), "mps")
    call(x, batch, ptr)  # compiles
    with mps_emulator.count_readbacks() as counted:
        call(x, batch, ptr)
    assert counted.count == reads, counted


@needs_emulator
@pytest.mark.parametrize("bad", ["batch_x", "batch_y", "batch_size", "missing", "ptr_x", "ptr_y"])
def test_what_is_wrong_is_found_in_the_one_read(bad):
    x = torch.rand(4, 3, device="mps")
    good = torch.tensor([0, 0, 1, 1], device="mps")
    ptr = torch.tensor([0, 2, 4], device="mps")
    wrong, wrong_ptr = good.flip(0), torch.tensor([0, 2, 5], device="mps")
    clouds = {
        "batch_x": (wrong, good, None, None),
        "batch_y": (good, wrong, None, None),
        "batch_size": (good, good, None, None),
        "missing": (good, None, None, None),
        "ptr_x": (None, None, wrong_ptr, ptr),
        "ptr_y": (None, None, ptr, wrong_ptr),
    }[bad]
    for op, rest in (
        (OPS.flat_knn, (2, 1 if bad == "batch_size" else None, 1)),
        (OPS.flat_radius, (0.5, 3, 1 if bad == "batch_size" else None, False, 1)),
    ):
        with mps_emulator.count_readbacks() as counted, pytest.raises(ValueError, match="must be"):
            op(x, x, *clouds, *rest)
        assert counted.count == 1
