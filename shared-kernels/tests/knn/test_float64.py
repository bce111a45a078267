"""Float64 points on the CPU: the core operator searches in float64, every step rounded."""

import numpy as np
import pytest
import torch

import mps_pointops
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud

RULES = [Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ, Rule.COSINE]


def _search(query, ref, k, rule, first=None, last=None, clouds=1, euclidean=False):
    return torch.ops.mps_pointops.knn(query, ref, first, last, clouds, k, euclidean, int(rule))


def _oracle(query, ref, k, cosine):
    """NumPy rounds every operation on float64, as the contract wants."""
    distances, indices = [], []
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for q in query.numpy():
            pairs = []
            for i, p in enumerate(ref.numpy()):
                if not (np.isfinite(p).all() and np.isfinite(q).all()):
                    continue
                if cosine:
                    dot, pp, qq = 0.0 * p[0], 0.0 * p[0], 0.0 * p[0]
                    for a, b in zip(p, q, strict=True):
                        dot, pp, qq = dot + a * b, pp + a * a, qq + b * b
                    if pp > 0 and qq > 0:
                        pairs.append((1 - dot / (np.sqrt(pp) * np.sqrt(qq)), i))
                else:
                    total = 0.0
                    for a, b in zip(p, q, strict=True):
                        total = total + (a - b) * (a - b)
                    pairs.append((total, i))
            pairs = sorted(pairs)[:k]
            pairs += [(np.inf, -1)] * (k - len(pairs))
            distances.append([d for d, _ in pairs])
            indices.append([i for _, i in pairs])
    return torch.tensor(distances, dtype=torch.float64), torch.tensor(indices)


def _points(name, size, dim=3, seed=0):
    """Differences that float32 does not have."""
    points = cloud(name, size, dim, seed).double()
    return points if name == "lattice" else points * (1 + 2.0**-30)


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("name", CLOUDS)
def test_reference_is_exact(name, cosine):
    query, ref = _points(name, 7, seed=1), _points(name, 30)
    query[:3] = ref[:3]
    distance, index = knn_reference(query, ref, 30, Rule.COSINE if cosine else Rule.FMA_XYZ)
    wanted = _oracle(query, ref, 30, cosine)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CLOUDS)
def test_rules_are_one(name, rule):
    query, ref = _points(name, 12, seed=1), _points(name, 200)
    query[:6] = ref[:6]
    if rule is Rule.COSINE:
        ref[::7] = 0.0
    distance, index = _search(query, ref, 60, rule)
    wanted = knn_reference(query, ref, 60, rule)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])


@pytest.mark.parametrize("dim", [1, 4, 33])
@pytest.mark.parametrize("size", SIZES)
def test_sizes(size, dim):
    ref = _points("duplicates", size, dim)
    for rule in (Rule.SEPARATE, Rule.COSINE):
        for k in (1, min(size, 20), size):
            distance, index = _search(ref[:4], ref, k, rule)
            wanted = knn_reference(ref[:4], ref, k, rule)
            assert_same_bits(index, wanted[1])
            assert_same_bits(distance, wanted[0])


def test_what_float32_cannot_tell_apart():
    ref = torch.tensor([[0.0], [1.0], [1 + 1e-9]], dtype=torch.float64)
    query = torch.tensor([[1 + 9e-10]], dtype=torch.float64)
    distance, index = _search(query, ref, 1, Rule.FMA_XYZ, euclidean=True)
    assert index.tolist() == [[2]]
    assert distance.dtype == torch.float64
    assert abs(distance.item() - 1e-10) < 1e-15
    assert _search(query.float(), ref.float(), 1, Rule.FMA_XYZ)[1].tolist() == [[1]]


@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.COSINE])
def test_ranges_blocks_and_sizes_beyond_float32(monkeypatch, rule):
    import mps_pointops._cpu.rows as blocks

    monkeypatch.setattr(blocks, "PAIRS", 150)
    ref = _points("not_finite", 90) * 1e200 if rule is Rule.SEPARATE else _points("lattice", 90)
    query = torch.cat((ref[:8], torch.zeros(2, 3, dtype=torch.float64)))
    first = torch.tensor([0] * 4 + [20] * 4 + [90, 5])
    last = torch.tensor([20] * 4 + [77] * 4 + [90, 60])
    distance, index = _search(query, ref, 25, rule, first, last)
    assert (torch.isinf(distance) & (index >= 0)).any() == (rule is Rule.SEPARATE)
    for row in range(10):
        low, high = int(first[row]), int(last[row])
        d, i = knn_reference(query[row : row + 1], ref[low:high], 25, rule)
        assert_same_bits(distance[row], d[0])
        assert_same_bits(index[row], torch.where(i[0] >= 0, i[0] + low, -1))


def test_equal_clouds():
    ref = torch.stack([_points(name, 50) for name in ("random", "lattice", "duplicates")])
    distance, index = _search(
        ref[:, :9].reshape(27, 3), ref.reshape(150, 3), 7, Rule.SEPARATE, clouds=3
    )
    for b in range(3):
        d, i = knn_reference(ref[b, :9], ref[b], 7)
        assert_same_bits(distance[9 * b : 9 * b + 9], d)
        assert_same_bits(index[9 * b : 9 * b + 9], i)


def test_shapes_and_dtypes_as_torch_sees_them():
    x, y = _points("random", 15), _points("random", 4, seed=1)
    for rule in (0, 3):
        torch.library.opcheck(
            torch.ops.mps_pointops.knn.default, (y, x, None, None, 1, 3, True, rule)
        )
    with torch.device("meta"):
        empty = torch.empty(5, 3, dtype=torch.float64)
    assert _search(empty, empty, 2, Rule.SEPARATE)[0].dtype == torch.float64


def test_dense_calls_take_no_float64():
    xyz = torch.rand(1, 9, 3, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"query must be float32, float16 or bfloat16, got torch"):
        mps_pointops.knn(xyz, xyz, 2)
