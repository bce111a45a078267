"""The cosine distance: arithmetic against rational numbers, both devices against the reference."""

import pytest
import torch

import mps_emulator
import mps_pointops
import mps_pointops.ops.knn.brute as kernels
from mps_pointops import flat
from mps_pointops._arithmetic import distance_bits, pair_distance, takes_part
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.cpu import knn_cpu
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud, oracles

# lengths, directions and bits that are hard to divide or to leave out
VECTORS = (*CLOUDS, "rays", "opposite", "zeros", "edge_of_zero", "edge_of_infinity")


def _vectors(name, size, dim=3, seed=0):
    if name in CLOUDS:
        return cloud(name, size, dim, seed)
    points = cloud("random", size, dim, seed)
    if name == "rays":  # a few directions in many lengths: ties, and distances below zero
        lengths = torch.arange(1, size + 1).unsqueeze(1) * 0.37
        return points[torch.arange(size) % max(1, size // 8)] * lengths
    if name == "opposite":
        points[1::2] = -points[::2][: size // 2]
        return points
    if name == "zeros":
        points[::3] = 0.0
        points[1::5] = -0.0
        return points
    if name == "edge_of_zero":  # one unit in the last place around 2**-63, and subnormal numbers
        steps = torch.arange(size).unsqueeze(1) % 5 - 2
        points = points.sign() * 2.0**-63 * (1 + steps * 2.0**-23)
        points[3::7, 1:] *= 2.0**-70
        return points
    if name == "edge_of_infinity":
        return points * 2.0 ** (60 + 5 * (torch.arange(size) % 3)).unsqueeze(1)
    raise AssertionError(name)


def _queries(name, ref, rows=12):
    query = _vectors(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) % len(ref)]
    return query


def _check(device, query, ref, k):
    got = mps_pointops.knn(query[None].to(device), ref[None].to(device), k, rule="cosine")
    distance, index = knn_reference(query, ref, k, Rule.COSINE)
    assert_same_bits(got[1][0], index)
    assert_same_bits(got[0][0], distance)


@pytest.mark.parametrize("dim", [1, 3, 6])
@pytest.mark.parametrize("name", VECTORS)
def test_reference_is_exact(name, dim):
    ref = _vectors(name, 30, dim)
    query = _queries(name, ref, 8)
    distance, index = knn_reference(query, ref, 30, Rule.COSINE)
    for row, q in enumerate(query.numpy()):
        pairs = [(oracles.cosine_distance(q, p), i) for i, p in enumerate(ref.numpy())]
        wanted = sorted(pair for pair in pairs if pair[0] is not None)
        assert index[row].tolist() == [i for _, i in wanted] + [-1] * (30 - len(wanted))
        found = [d for d, _ in wanted] + [float("inf")] * (30 - len(wanted))
        assert distance[row].tolist() == found


def test_the_clouds_reach_the_hard_cases():
    """Ties, negative distances, pairs that overflow, vectors left out."""
    ref = _vectors("rays", 300)
    distance, _ = knn_reference(ref, ref, 300, Rule.COSINE)
    assert (distance < 0).any()
    assert (distance[:, 1:] == distance[:, :-1]).any()
    opposite = _vectors("opposite", 40)
    assert (knn_reference(opposite, opposite, 40, Rule.COSINE)[0] >= 2).any()
    far = _vectors("edge_of_infinity", 60)
    distance, index = knn_reference(far, far, 60, Rule.COSINE)
    assert (torch.isinf(distance) & (index >= 0)).any()
    assert ((distance == 1) & (index >= 0)).any()
    small = takes_part(_vectors("edge_of_zero", 40, 1), Rule.COSINE)
    assert small.any()
    assert not small.all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["random", "lattice", "rays", "zeros"])
def test_sizes(device, name, size):
    ref = _vectors(name, size)
    _check(device, _queries(name, ref), ref, min(size, 20))


@pytest.mark.parametrize("dim", [1, 3, 17])
@pytest.mark.parametrize("name", VECTORS)
def test_vectors(device, name, dim):
    ref = _vectors(name, 90, dim)
    for k in (7, 90):
        _check(device, _queries(name, ref, rows=8), ref, k)


def test_the_quick_sum_does_not_lose_vectors_that_are_partly_flushed(device):
    """Two squares of three vanish, no product does: 1 - 3 / sqrt(3), nearer than the same way."""
    ref = torch.ones(40, 3) * torch.arange(1, 41).unsqueeze(1)
    ref[35:] = torch.tensor([0.99, 0.99, 1.0]) * 2.0**-63
    query = torch.cat((torch.ones(2, 3), ref[39:]))
    assert knn_reference(query, ref, 3, Rule.COSINE)[1][0].tolist() == [35, 36, 37]
    _check(device, query, ref, 3)


@pytest.mark.parametrize("k", [0, 1, 32, 33, 512, 513, 1100])
@pytest.mark.parametrize("name", ["rays", "not_finite"])
def test_k(device, name, k):
    ref = _vectors(name, 1100)
    _check(device, _queries(name, ref, rows=4), ref, k)


def test_distances_are_not_rooted_and_order_is_by_angle(device):
    ref = torch.tensor([[0.0, 2.0], [-3.0, 0.0], [5.0, 5.0], [0.0, 0.0], [7.0, 0.0], [1.0, 0.0]])
    query = torch.tensor([[2.0, 0.0]])
    distance, index = mps_pointops.knn(
        query[None].to(device), ref[None].to(device), 6, rule="cosine"
    )
    assert index[0, 0].tolist() == [4, 5, 2, 0, 1, -1]
    wanted = [0.0, 0.0, 1 - 0.5**0.5, 1.0, 2.0, float("inf")]
    torch.testing.assert_close(distance[0, 0].cpu(), torch.tensor(wanted))


def test_a_zero_query_has_no_neighbours(device):
    ref = torch.rand(1, 40, 3, device=device)
    distance, index = mps_pointops.knn(torch.zeros_like(ref[:, :2]), ref, 3, rule="cosine")
    assert (index == -1).all()
    assert torch.isinf(distance).all()


@pytest.mark.parametrize("name", VECTORS)
def test_ranges_of_the_core_operator(device, name):
    ref = _vectors(name, 90)
    query = _queries(name, ref)
    first = torch.tensor([0] * 4 + [20] * 4 + [90] * 4)
    last = torch.tensor([20] * 4 + [77] * 4 + [90] * 4)
    got = torch.ops.mps_pointops.knn(
        query.to(device), ref.to(device), first.to(device), last.to(device), 1, 25, True, 3
    )
    for row in range(12):
        low, high = int(first[row]), int(last[row])
        d, i = knn_reference(query[row : row + 1], ref[low:high], 25, Rule.COSINE)
        assert_same_bits(got[0][row], d[0])
        assert_same_bits(got[1][row], torch.where(i[0] >= 0, i[0] + low, -1))


@pytest.mark.parametrize("name", VECTORS)
def test_which_points_take_part_is_known_on_the_device(device, name):
    """A norm above zero is to say that one coordinate is large enough, to the last bit."""
    points = _vectors(name, 100, 4)
    _, index = knn_reference(points, points, 100, Rule.COSINE)
    assert_same_bits(takes_part(points.to(device), Rule.COSINE), index[:, 0] >= 0)


def test_very_many_near_pairs(monkeypatch):
    """Equal directions make every pair one to look at closely, a few at a time."""
    import mps_pointops._cpu.rows as blocks
    import mps_pointops.ops.knn.directions as room

    monkeypatch.setattr(room, "_COORDINATES", 40)
    monkeypatch.setattr(blocks, "PAIRS", 200)
    ref = _vectors("all_equal", 70, 7)
    _check("cpu", ref[:9], ref, 5)


def test_margin_of_the_quick_sum():
    """Distances one unit apart, in many dimensions, are told apart and ordered."""
    generator = torch.Generator().manual_seed(5)
    centre = torch.randn(300, generator=generator)
    ref = centre + torch.randn(400, 300, generator=generator) * 1e-4
    query = torch.cat((centre[None], ref[:5]))
    distance, index = knn_cpu(query, ref, None, None, 1, 50, False, 3)
    wanted = knn_reference(query, ref, 50, Rule.COSINE)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])


def test_keys_of_signed_distances_keep_the_order():
    values = torch.tensor([-torch.inf, -2.0, -1e-7, 0.0, 1e-7, 2.0, torch.inf, torch.nan])
    bits = distance_bits(values)
    assert torch.equal(bits, bits.sort().values)
    assert len(bits.unique()) == len(bits)


def test_other_operators_refuse_it(device):
    xyz = torch.rand(1, 9, 3, device=device)
    x, ops = xyz[0], torch.ops.mps_pointops
    calls = [
        lambda: mps_pointops.ball_query(xyz, xyz, 0.5, 3, rule="cosine"),
        lambda: mps_pointops.furthest_point_sample(xyz, 3, rule="cosine"),
        lambda: flat.fps(x, rule="cosine"),
        lambda: flat.radius(x, x, 0.5, rule="cosine"),
        lambda: ops.ball_query(x, x, None, None, 1, 3, 0.5, True, False, 3),
        lambda: ops.ball_count(x, x, None, None, 1, 3, 0.5, True, False, 3),
        lambda: ops.fps(x, None, None, None, 1, 3, 9, 3, 0, False, 3, 0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="rule must be"):
            call()


@pytest.fixture(params=[(False, 310), (True, 310), (True, 320)], ids=["safe", "fast", "fast-3.2"])
def math_mode(request, monkeypatch):
    if not mps_emulator.is_installed():
        pytest.skip("a real GPU cannot be told how to run")
    from mps_emulator.shader import options

    fast, version = request.param
    monkeypatch.setattr(options, "fast_math", fast)
    monkeypatch.setattr(options, "metal_version", version)
    for source in (kernels.HIGH, kernels.MERGE):
        monkeypatch.setattr(source, "_kernels", {})


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.usefixtures("math_mode")
def test_math_modes(name):
    for dim in (3, 5):
        ref = _vectors(name, 80, dim)
        _check("mps", _queries(name, ref, rows=8), ref, 30)


def test_cosine_distance_is_rounded_step_by_step():
    a, b = cloud("random", 400, 3), cloud("random", 400, 3, seed=1)
    b[:200] = a[:200] + b[:200] * 1e-3
    got = pair_distance(a, b, Rule.COSINE).tolist()
    assert got == [oracles.cosine_distance(p, q) for p, q in zip(a.numpy(), b.numpy(), strict=True)]
