"""Errors, reads of the device, compiled code."""

import pytest
import torch

import mps_emulator
from mps_pointops.pytorch3d import (
    ball_query,
    knn_gather,
    knn_points,
    masked_gather,
    sample_farthest_points,
)
from pointops_testing import assert_same_bits

needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)


@pytest.fixture
def pair(device):
    return torch.rand(2, 5, 3, device=device), torch.rand(2, 8, 3, device=device)


def same(*numbers, like):
    return torch.tensor(numbers, device=like.device)


@pytest.mark.parametrize("search", [knn_points, ball_query])
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda f, a, b: f(a[0], b), ValueError, r"p1 must be of shape \(B, N, D\)"),
        (lambda f, a, b: f(a, b[:1]), ValueError, r"p2 must be of the batch size of p1 \(2\)"),
        (lambda f, a, b: f(a, b[..., :2]), ValueError, r"p2 must be of the dimension D of p1"),
        (lambda f, a, b: f(a.int(), b), TypeError, r"p1 must be float64, float32, .*\.float\(\)"),
        (lambda f, a, b: f(None, b), TypeError, "p1 must be a torch.Tensor, got NoneType"),
        (lambda f, a, b: f(a, b, K=-1), ValueError, "K must be at least 0, got -1"),
        (lambda f, a, b: f(a, b, K=1.5), TypeError, "K must be an integer, got float"),
        (lambda f, a, b: f(a, b, [5, 5]), TypeError, "lengths1 must be a torch.Tensor or None"),
        (
            lambda f, a, b: f(a, b, None, same(8.0, 8.0, like=a)),
            TypeError,
            "lengths2 must be int64 or int32, got torch.float32",
        ),
        (
            lambda f, a, b: f(a, b, same(5, like=a)),
            ValueError,
            r"lengths1 must be of shape \[2\], one a cloud of p1, got shape \[1\]",
        ),
        (
            lambda f, a, b: f(a, b, torch.tensor([5, 6])),
            ValueError,
            r"lengths1 must be from 0 to the number of points of p1 \(5\), got 6",
        ),
        (lambda f, a, b: f(a, b, None, torch.tensor([-1, 6])), ValueError, "got -1"),
    ],
)
def test_bad_arguments(pair, search, call, error, text):
    with pytest.raises(error, match=text):
        call(search, *pair)


@pytest.mark.parametrize("norm", [0, 3, "2", None])
def test_bad_norm(pair, norm):
    with pytest.raises(ValueError, match="knn_points: norm must be 1 or 2, got"):
        knn_points(*pair, norm=norm)


@pytest.mark.parametrize("radius", [-0.1, -torch.inf, torch.nan])
def test_bad_radius(pair, radius):
    with pytest.raises(ValueError, match="ball_query: radius must be at least 0"):
        ball_query(*pair, radius=radius)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"K": -1}, ValueError, "K must be at least 0"),
        ({"K": 2.0}, TypeError, "K must be an integer, got float"),
        ({"K": "12"}, TypeError, "K must be an integer, got str"),
        ({"K": [1]}, ValueError, r"K must be of the batch size of points \(2\), got 1"),
        ({"K": [1, -2]}, ValueError, "K must be at least 0, got -2"),
        ({"K": [1, torch.inf]}, TypeError, "K must be an integer"),
        ({"K": torch.tensor([1, 2, 3])}, ValueError, "K must be of the batch size of points"),
        ({"K": torch.tensor([[1, 2]])}, ValueError, r"K must be a number or of shape \[2\]"),
        ({"K": torch.tensor([True, False])}, TypeError, "K must be numbers, got torch.bool"),
        ({"lengths": torch.tensor([1.5, 9.0])}, ValueError, r"of points \(8\), got 9"),
        ({"lengths": torch.tensor([True, True])}, TypeError, "lengths must be numbers"),
        ({"lengths": torch.tensor([9, 1])}, ValueError, r"of points \(8\), got 9"),
        ({"lengths": torch.tensor([1, -1])}, ValueError, "got -1"),
        ({"lengths": torch.tensor([1])}, ValueError, r"lengths must be of shape \[2\]"),
    ],
)
@pytest.mark.parametrize("moved", [False, True])
def test_bad_sample(pair, arguments, error, text, moved):
    """Lengths on the device are read anyhow, so they are checked too."""
    if moved:
        arguments = {
            k: v.to(pair[1].device) if isinstance(v, torch.Tensor) else v
            for k, v in arguments.items()
        }
    with pytest.raises(error, match=f"sample_farthest_points: .*{text}"):
        sample_farthest_points(pair[1], **arguments)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: knn_gather(x, None), TypeError, "knn_gather: idx must be a torch.Tensor"),
        (lambda x: knn_gather(x[0], x.long()), ValueError, "x must be of shape"),
        (lambda x: knn_gather(x, x), TypeError, "idx must be int64 or int32"),
        (lambda x: knn_gather(x, x.long()[:1]), ValueError, "idx must be of the batch size of x"),
        (lambda x: knn_gather(x, x.long()[0]), ValueError, "idx must be of"),
        (lambda x: knn_gather(x, x.long()[:, 0]), ValueError, r"of shape \(N, L, K\)"),
        (lambda x: knn_gather(x, x.long(), torch.tensor([9, 9])), ValueError, "got 9"),
        (lambda x: masked_gather(x, x.long()[:, 0, 0]), ValueError, r"\(N, K\) or \(N, L, K\)"),
    ],
)
def test_bad_gathers(pair, call, error, text):
    with pytest.raises(error, match=text):
        call(pair[1])


def test_mixed_devices(pair):
    p1, p2 = pair
    other = "cpu" if p1.device.type == "mps" else "mps"
    with pytest.raises(ValueError, match="p2 must be on the device of p1"):
        knn_points(p1, p2.to(other))
    if other == "mps":
        with pytest.raises(ValueError, match="lengths1 must be on the device of p1"):
            knn_points(p1, p2, torch.tensor([5, 5], device=other))
    with pytest.raises(ValueError, match="idx must be on the device of x"):
        knn_gather(p1, torch.zeros(2, 1, 1, dtype=torch.int64, device=other))


@pytest.mark.parametrize("index", [8, -1])
def test_index_out_of_range(pair, device, index, monkeypatch):
    x, idx = pair[1], torch.full((2, 1, 1), index, device=device)
    if device == "mps":
        assert bool(knn_gather(x, idx).isnan().all())
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    with pytest.raises(IndexError, match=f"knn_gather: idx must be from 0 to 7, got {index}"):
        knn_gather(x, idx)
    if index > 0:
        with pytest.raises(IndexError, match="masked_gather: idx must be from 0 to 7"):
            masked_gather(x, idx)


def test_nothing_to_gather_from(device):
    x = torch.rand(1, 0, 3, device=device)
    none = torch.full((1, 2), -1, device=device)
    assert masked_gather(x, none).tolist() == [[[0.0] * 3] * 2]
    if device == "cpu":
        with pytest.raises(IndexError):
            masked_gather(x, none + 1)
    else:
        assert bool(masked_gather(x, none + 1).isnan().all())


def test_lengths_out_of_range_on_mps_are_cut(monkeypatch):
    p1, p2 = torch.rand(2, 5, 3, device="mps"), torch.rand(2, 8, 3, device="mps")
    wrong, right = (torch.tensor(n, device="mps") for n in ([99, -4], [8, 0]))
    for call in (knn_points, ball_query):
        for x, y in zip(
            call(p1, p2, None, wrong, K=3)[:2], call(p1, p2, None, right, K=3)[:2], strict=True
        ):
            assert_same_bits(x, y)
    monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    with pytest.raises(ValueError, match="lengths2 must be from 0"):
        knn_points(p1, p2, None, wrong)


def test_lengths_and_picks_may_be_on_the_host(pair):
    p1, p2 = pair
    lengths = torch.tensor([5, 3])
    there = lengths.to(p1.device)
    for a, b in (
        (knn_points(p1, p2, lengths, K=2), knn_points(p1, p2, there, K=2)),
        (knn_points(p1, p2, lengths.int(), K=2), knn_points(p1, p2, there, K=2)),
        (ball_query(p1, p2, lengths, K=2), ball_query(p1, p2, there, K=2)),
        (sample_farthest_points(p2, lengths, there), sample_farthest_points(p2, there, lengths)),
    ):
        for x, y in zip(a, b, strict=True):
            assert (x is None and y is None) or torch.equal(x, y)


def test_results_stay_on_the_device(pair):
    p1, p2 = pair
    results = (
        *knn_points(p1, p2, K=2, return_nn=True),
        *ball_query(p1, p2),
        *sample_farthest_points(p2, K=3),
    )
    assert {t.device for t in results} == {p1.device}


@needs_emulator
@pytest.mark.parametrize(
    ("call", "reads"),
    [
        (lambda a, b, l1, l2: knn_points(a, b, K=3, return_nn=True), 0),
        (lambda a, b, l1, l2: knn_points(a, b, l1, l2, K=9, return_nn=True), 0),
        (lambda a, b, l1, l2: knn_points(a, b, l1, l2, norm=1), 0),
        (lambda a, b, l1, l2: ball_query(a, b, K=3), 0),
        (lambda a, b, l1, l2: ball_query(a, b, l1, l2, K=3), 0),
        (lambda a, b, l1, l2: sample_farthest_points(b, K=3), 0),
        (lambda a, b, l1, l2: sample_farthest_points(b, K=[3, 4]), 0),
        (lambda a, b, l1, l2: sample_farthest_points(b, K=3, random_start_point=True), 0),
        (lambda a, b, l1, l2: sample_farthest_points(b, l2.cpu(), K=l2.cpu()), 2),  # of .cpu()
        (lambda a, b, l1, l2: sample_farthest_points(b, l2, K=3), 1),
        (lambda a, b, l1, l2: sample_farthest_points(b, l2, l1, True), 1),
        (lambda a, b, l1, l2: sample_farthest_points(b, K=l1), 1),
        (lambda a, b, l1, l2: sample_farthest_points(b, l2, K=l1[0]), 1),
        (lambda a, b, l1, l2: sample_farthest_points(b, l2, K=[5, 1]), 1),
    ],
)
def test_reads(call, reads):
    p1, p2 = torch.rand(2, 5, 3, device="mps"), torch.rand(2, 8, 3, device="mps")
    lengths = torch.tensor([5, 2], device="mps"), torch.tensor([8, 3], device="mps")
    call(p1, p2, *lengths)  # compiles
    with mps_emulator.count_readbacks() as counted:
        call(p1, p2, *lengths)
    assert counted.count == reads, counted


@needs_emulator
def test_backward_reads_nothing():
    p1 = torch.rand(2, 5, 3, device="mps", requires_grad=True)
    p2 = torch.rand(2, 8, 3, device="mps", requires_grad=True)
    lengths = torch.tensor([5, 2], device="mps")

    def step():
        found = knn_points(p1, p2, lengths, K=3, return_nn=True)
        loss = found.dists.sum() + found.knn.sum() + ball_query(p1, p2, K=3).dists.sum()
        torch.autograd.grad(loss, (p1, p2))

    step()
    with mps_emulator.count_readbacks() as counted:
        step()
    assert counted.count == 0, counted


# what Dynamo of torch 2.7 itself does
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_compile_fullgraph(device, dynamic):
    p1 = torch.rand(2, 5, 3, device=device, requires_grad=True)
    p2 = torch.rand(2, 8, 3, device=device, requires_grad=True)
    l1, l2 = torch.tensor([5, 2], device=device), torch.tensor([8, 3], device=device)

    def step(a, b, la, lb):
        found = knn_points(a, b, la, lb, K=4, return_nn=True)
        itself = knn_points(b, b, K=3)
        picked, idx = sample_farthest_points(b, K=3)
        inside = ball_query(picked, b, None, lb, K=4, radius=0.6, return_nn=False)
        loss = found.dists.sum() + found.knn.sum() + inside.dists.sum() + itself.dists.sum()
        return loss, found.idx, inside.idx, idx

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    got, wanted = compiled(p1, p2, l1, l2), step(p1, p2, l1, l2)
    for x, y in zip(got[1:], wanted[1:], strict=True):
        assert_same_bits(x, y)
    torch.testing.assert_close(got[0], wanted[0])
    for x, y in zip(
        torch.autograd.grad(got[0], (p1, p2)), torch.autograd.grad(wanted[0], (p1, p2)), strict=True
    ):
        torch.testing.assert_close(x, y)
