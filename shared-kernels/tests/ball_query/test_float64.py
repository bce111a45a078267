"""Float64 points on the CPU: the core operators compare with r * r in float64."""

import math

import pytest
import torch

from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud

OPS = torch.ops.mps_pointops
RADIUS = {"near_origin": 0.03, "tiny": 2.0**-63, "huge": 2.0**63}


def _search(query, ref, radius, K, rule=1, first=None, last=None, same=False, rounded=False):
    arguments = (query, ref, first, last, 1, K, radius, rounded, same, int(rule))
    distance, index = OPS.ball_query(*arguments)
    assert torch.equal(OPS.ball_count(*arguments), (index >= 0).sum(dim=1))
    return distance, index


def _points(name, size, dim=3, seed=0):
    return cloud(name, size, dim, seed).double() * (1 + 2.0**-30)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("name", CLOUDS)
def test_hits_are_those_of_plain_python(name, rounded):
    query, ref, radius = _points(name, 9, seed=1), _points(name, 60), RADIUS.get(name, 1.0)
    query[:4] = ref[:4]
    distance, index = _search(query, ref, radius, 20, rounded=rounded)
    for row, q in enumerate(query.tolist()):
        wanted = []
        for i, p in enumerate(ref.tolist()):
            total = 0.0
            for a, b in zip(q, p, strict=True):
                total += (a - b) * (a - b)
            if total < radius * radius and all(map(math.isfinite, p)):
                wanted.append((total, i))
        wanted = (wanted + [(0.0, -1)] * 20)[:20]
        assert index[row].tolist() == [i for _, i in wanted]
        assert distance[row].tolist() == [d for d, _ in wanted]


@pytest.mark.parametrize("dim", [1, 3, 40])
@pytest.mark.parametrize("name", CLOUDS)
def test_reference_and_operator_agree(name, dim):
    query, ref = _points(name, 12, dim, seed=1), _points(name, 300, dim)
    query[:6] = ref[:6]
    radius = RADIUS.get(name, 1.0) * dim**0.5
    distance, index = _search(query, ref, radius, 33)
    wanted = ball_query_reference(query, ref, radius, 33, Rule.FMA_XYZ)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])


@pytest.mark.parametrize("rule", [0, 1, 2])
def test_the_radius_keeps_its_digits(rule):
    radius = 0.1 + 1e-12
    ref = torch.tensor([[0.1, 0.0, 0.0], [radius, 0.0, 0.0]], dtype=torch.float64)
    query = torch.zeros(1, 3, dtype=torch.float64)
    distance, index = _search(query, ref, radius, 3, rule)
    assert index.tolist() == [[0, -1, -1]]
    assert distance.tolist() == [[0.1 * 0.1, 0.0, 0.0]]
    for radius in (1e-150, 1e150):  # squares that float32 has not
        query, ref = torch.zeros(1, 1).double(), torch.tensor([[0.5], [1.0]]).double() * radius
        assert _search(query, ref, radius, 2, rule if rule < 2 else 0)[1].tolist() == [[0, -1]]


def test_infinite_and_zero_radii():
    points = _points("not_finite", 50)
    finite = torch.isfinite(points).all(dim=1)
    _, index = _search(points, points, torch.inf, 50)
    assert torch.equal((index >= 0).sum(dim=1) > 0, finite)
    assert (_search(points, points, 0.0, 5)[1] == -1).all()


def test_ranges_same_rows_and_blocks(monkeypatch):
    import mps_pointops._cpu.rows as room

    monkeypatch.setattr(room, "PAIRS", 150)
    ref = _points("duplicates", 90)
    first = torch.tensor([0] * 40 + [40] * 50)
    last = torch.tensor([40] * 40 + [90] * 50)
    _, index = _search(ref, ref, 1.0, 6, 1, first, last, True)
    for row in range(90):
        low, high = int(first[row]), int(last[row])
        _, i = ball_query_reference(ref[row : row + 1], ref[low:high], 1.0, 90, Rule.FMA_XYZ)
        wanted = [j + low for j in i[0].tolist() if j >= 0 and j + low != row][:6]
        assert index[row].tolist() == (wanted + [-1] * 6)[:6]


def test_gradient():
    query = _points("random", 5).requires_grad_()
    ref = _points("random", 9, seed=1).requires_grad_()

    def distances(q, p):
        return OPS.ball_query(q, p, None, None, 1, 6, 1.5, False, False, 1)[0]

    assert (distances(query, ref) > 0).any()
    assert torch.autograd.gradcheck(distances, (query, ref))


def test_shapes_and_dtypes_as_torch_sees_them():
    x, y = _points("random", 15), _points("random", 4, seed=1)
    arguments = (y, x, None, None, 1, 3, 0.8, False, False, 1)
    torch.library.opcheck(OPS.ball_query.default, arguments)
    torch.library.opcheck(OPS.ball_count.default, arguments)
    assert OPS.ball_query(*arguments)[0].dtype == torch.float64
