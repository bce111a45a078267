"""Shapes, dtypes, order, edge cases and errors of `knn_cuda`."""

import inspect

import numpy as np
import pytest
import torch

import knn_cuda
from knn_cuda import KNN, knn
from pointops_testing import CLOUDS, assert_same_bits, cloud, oracles


def _clouds(device, *shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def test_names():
    assert knn_cuda.__version__ == "0.2"
    assert list(inspect.signature(KNN).parameters) == ["k", "transpose_mode"]
    assert list(inspect.signature(KNN.forward).parameters) == ["self", "ref", "query"]
    assert list(inspect.signature(knn).parameters) == ["ref", "query", "k"]


def test_rows(device):
    ref = torch.tensor([[[0.0, 0, 0], [0, 0, 1], [0, 0, 4]], [[5.0, 5, 5], [5, 5, 7], [0, 0, 0]]])
    query = torch.tensor([[[0, 0, 0.75]], [[5.0, 5, 5]]])
    distance, index = KNN(k=2, transpose_mode=True)(ref.to(device), query.to(device))
    assert_same_bits(index, torch.tensor([[[1, 0]], [[0, 1]]]))
    assert_same_bits(distance, torch.tensor([[[0.25, 0.75]], [[0.0, 2.0]]]))
    assert index.device.type == distance.device.type == device


@pytest.mark.parametrize("name", CLOUDS)
def test_order_and_rounding(device, name):
    ref, query = cloud(name, 60), cloud(name, 5, seed=1)
    query[:2] = ref[:2]
    _, index = KNN(7, transpose_mode=True)(ref[None].to(device), query[None].to(device))
    _, wanted = oracles.knn(query.numpy(), ref.numpy(), 7, "fma_xyz")
    assert_same_bits(index[0], torch.tensor(wanted).clamp(min=0))


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 33])
def test_columns_are_transposed_rows(device, dim):
    ref, query = _clouds(device, 3, 50, dim), _clouds(device, 3, 9, dim, seed=1)
    rows = KNN(4, transpose_mode=True)(ref, query)
    columns = KNN(4)(ref.transpose(1, 2).contiguous(), query.transpose(1, 2).contiguous())
    for row, column in zip(rows, columns, strict=True):
        assert column.shape == (3, 4, 9)
        assert column.is_contiguous()
        assert row.is_contiguous()
        assert_same_bits(column.transpose(1, 2), row)


def test_function_is_one_cloud(device):
    ref, query = _clouds(device, 5, 40), _clouds(device, 5, 6, seed=1)
    got = knn(ref, query, 3)
    for one, many in zip(got, KNN(3)(ref[None], query[None]), strict=True):
        assert one.shape == (3, 6)
        assert one.is_contiguous()
        assert_same_bits(one, many[0])


def test_all_of_them_in_order_of_distance(device):
    ref = _clouds(device, 1, 70, 3)
    distance, index = KNN(70, transpose_mode=True)(ref, ref[:, :4])
    assert_same_bits(index.sort(dim=2).values, torch.arange(70).expand(1, 4, 70).to(device))
    assert bool((distance.diff(dim=2) >= 0).all())


def test_many_neighbours_in_many_dimensions(device):
    ref, query = _clouds(device, 1, 410, 128), _clouds(device, 1, 3, 128, seed=1)
    distance, index = KNN(400, transpose_mode=True)(ref, query)
    exact = (query[0].cpu().double()[:, None] - ref[0].cpu().double()[None]).square().sum(2).sqrt()
    found = exact.gather(1, index[0].cpu())
    torch.testing.assert_close(found, exact.sort().values[:, :400], rtol=1e-6, atol=0)
    # float32 sums of 128 squares, rooted
    torch.testing.assert_close(distance[0].cpu().double(), found, rtol=1e-5, atol=0)


def test_equal_points_by_index(device):
    ref = torch.ones(1, 6, 3, device=device)
    _, index = KNN(4, transpose_mode=True)(ref, ref)
    assert_same_bits(index, torch.arange(4).expand(1, 6, 4).to(device))


def test_exact_roots(device):
    query = torch.tensor([[[3.0, 4, 0], [1, 2, 2], [2, 3, 6], [4, 4, 7]]], device=device)
    distance, _ = KNN(1, transpose_mode=True)(torch.zeros(1, 1, 3, device=device), query)
    assert distance.flatten().tolist() == [5.0, 3.0, 7.0, 9.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.float64])
def test_dtypes_are_computed_in_float32(device, dtype):
    if device == "mps" and dtype is torch.float64:
        pytest.skip("no such tensors on MPS")
    ref = (_clouds("cpu", 1, 50, 3) * 9).to(dtype).to(device)
    wanted = KNN(5, transpose_mode=True)(ref.float(), ref.float())
    for got, plain in zip(KNN(5, transpose_mode=True)(ref, ref), wanted, strict=True):
        assert_same_bits(got, plain)


def test_autocast_changes_nothing(device):
    ref = _clouds(device, 1, 50, 3).to(torch.bfloat16)
    wanted = KNN(5, transpose_mode=True)(ref, ref)
    with torch.autocast(device, dtype=torch.bfloat16):
        for got, plain in zip(KNN(5, transpose_mode=True)(ref, ref), wanted, strict=True):
            assert_same_bits(got, plain)


def test_views(device):
    base = _clouds(device, 2, 6, 40)
    rows = base[:, :3].transpose(1, 2)  # a transposed channel slice, as callers pass it
    wanted = KNN(4, transpose_mode=True)(rows.contiguous(), rows.contiguous())
    for mode, points in ((True, rows), (False, base[:, :3])):
        for got, plain in zip(KNN(4, transpose_mode=mode)(points, points), wanted, strict=True):
            assert_same_bits(got if mode else got.transpose(1, 2), plain)


def test_no_gradient(device):
    ref = _clouds(device, 1, 20, 3).requires_grad_()
    distance, index = KNN(2, transpose_mode=True)(ref, ref)
    assert not distance.requires_grad
    assert not index.requires_grad


def test_points_that_are_not_finite(device):
    ref = torch.tensor([[[0.0, 0], [np.nan, 0], [1, 0], [np.inf, 1]]], device=device)
    query = torch.tensor([[[0.9, 0.0], [np.nan, 0.0]]], device=device)
    distance, index = KNN(3, transpose_mode=True)(ref, query)
    assert index.tolist() == [[[2, 0, 0], [0, 0, 0]]]
    assert distance[0, 0, 2].item() == np.inf
    assert distance[0, 1].tolist() == [np.inf] * 3


@pytest.mark.parametrize("mode", [True, False])
def test_empty(device, mode):
    none = torch.zeros(0, 5, 5, device=device)
    assert [tuple(t.shape) for t in KNN(2, mode)(none, none)] == [
        (0, 5, 2) if mode else (0, 2, 5)
    ] * 2
    ref = torch.zeros(2, 5, 5, device=device)
    query = ref[:, :0] if mode else ref[:, :, :0]
    _, index = KNN(2, mode)(ref, query)
    assert index.shape == ((2, 0, 2) if mode else (2, 2, 0))
    assert index.dtype == torch.int64


@pytest.mark.parametrize("mode", [True, False])
def test_more_neighbours_than_points(device, mode):
    ref = torch.zeros(1, 5, 5, device=device)
    with pytest.raises(ValueError, match=r"k must be at most .* \(5\), got 6"):
        KNN(6, mode)(ref, ref)
    with pytest.raises(ValueError, match=r"k must be at most .* \(5\), got 6"):
        knn(ref[0], ref[0], 6)


def test_errors(device):
    ref = torch.zeros(2, 5, 3, device=device)
    with pytest.raises(AssertionError, match=r"ref.shape=\[2, 5, 3\] != query.shape=\[1, 5, 3\]"):
        KNN(1, True)(ref, ref[:1])
    with pytest.raises(ValueError, match=r"dimension D"):
        KNN(1, True)(ref, ref[..., :2])
    with pytest.raises(ValueError, match=r"ref must be of shape \(B, D, points\), got .*\[5, 3\]"):
        KNN(1)(ref[0], ref)
    with pytest.raises(ValueError, match=r"query must be of shape \(D, points\).*KNN"):
        knn(ref[0], ref, 1)
    with pytest.raises(TypeError, match=r"KNN: ref must be of a real dtype, got torch.complex64"):
        KNN(1, True)(ref * 1j, ref)
    with pytest.raises(TypeError, match=r"KNN: query must be a torch.Tensor, got list"):
        KNN(1)(ref, [[0.0]])
    with pytest.raises(TypeError, match=r"k must be an integer"):
        KNN(1.5, True)(ref, ref)


def test_mixed_devices():
    ref = torch.zeros(1, 5, 3)
    with pytest.raises(ValueError, match=r"device"):
        KNN(1, True)(ref, ref.to("mps"))


def test_compile_fullgraph(device):
    module = KNN(3, transpose_mode=False)
    ref = _clouds(device, 2, 3, 30)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    for got, plain in zip(compiled(ref, ref), module(ref, ref), strict=True):
        assert_same_bits(got, plain)
