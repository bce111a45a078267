from itertools import pairwise

import pytest
import torch

import mps_emulator

REDUCTIONS = ["sum", "mean", "min", "max"]
POINTER = [0, 2, 2, 5, 9]  # the second is empty


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


def reference(reduction, rows):
    """The result for one segment, [E] or [E, K]."""
    if len(rows) == 0:
        return rows.sum(0)
    if reduction in ("sum", "mean"):
        return sum(rows) / (len(rows) if reduction == "mean" else 1)
    return rows.amin(0) if reduction == "min" else rows.amax(0)


def csr(reduction, src, pointer):
    parts = [reference(reduction, src[a:b]) for a, b in pairwise(pointer)]
    return torch.stack(parts).to(src.dtype)


def positions(values, best, pointer):
    """The first place of each segment that holds its best value; len(values) if it is empty."""
    out = torch.full(best.shape, len(values))
    for n, (a, b) in enumerate(pairwise(pointer)):
        for e in reversed(range(a, b)):
            out[n] = torch.where(values[e] == best[n], e, out[n])
    return out


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(9,), (9, 3), (9, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_csr_and_coo_equal_the_loop(pyg, reduction, shape, dtype):
    if reduction == "mean" and dtype == torch.int64:
        pytest.skip("means are of floats, as in pyg-lib")
    src = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    wanted = csr(reduction, src, POINTER)
    pointer = torch.tensor(POINTER)
    index = torch.repeat_interleave(torch.arange(4), pointer.diff())
    by_pointer = as_list(getattr(pyg, f"segment_{reduction}_csr")(src.to("mps"), pointer.to("mps")))
    by_index = as_list(
        getattr(pyg, f"segment_{reduction}_coo")(src.to("mps"), index.to("mps"), None, 4)
    )
    for got in (by_pointer, by_index):
        assert got[0].dtype == dtype
        assert torch.equal(got[0].cpu(), wanted)
        if reduction in ("min", "max"):
            assert torch.equal(got[1].cpu(), positions(src, wanted, POINTER))
    narrow = getattr(pyg, f"segment_{reduction}_csr")(src.to("mps"), pointer.to("mps", torch.int32))
    assert torch.equal(as_list(narrow)[0].cpu(), wanted)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_leading_axes(pyg, reduction):
    src = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(2))
    pointers = torch.tensor([POINTER, [1, 1, 4, 4, 6]])  # values outside belong to none
    for one in (pointers, pointers[:1]):
        rows = one.expand(2, -1).tolist()
        wanted = torch.stack([csr(reduction, s, p) for s, p in zip(src, rows, strict=True)])
        got = as_list(getattr(pyg, f"segment_{reduction}_csr")(src.to("mps"), one.to("mps")))
        torch.testing.assert_close(got[0].cpu(), wanted)
    index = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2, 2], [0, 1, 1, 1, 1, 1, 2, 2, 2]])
    for one in (index, index[:1]):
        pointers = [[int((row < n).sum()) for n in range(4)] for row in one.expand(2, -1)]
        wanted = torch.stack([csr(reduction, s, p) for s, p in zip(src, pointers, strict=True)])
        got = as_list(getattr(pyg, f"segment_{reduction}_coo")(src.to("mps"), one.to("mps")))
        torch.testing.assert_close(got[0].cpu(), wanted)


def test_sorted_index_need_not_be_sorted(pyg):
    src = torch.tensor([1.0, 2, 4, 8], device="mps")
    index = torch.tensor([1, 0, 1, 0], device="mps")
    assert pyg.segment_sum_coo(src, index).tolist() == [10, 5]


def test_writing_into_out_is_as_in_pyg_lib(pyg):
    src = torch.tensor([1.0, 2, 4], device="mps")
    index, pointer = (torch.tensor(t, device="mps") for t in ([0, 0, 2], [0, 2, 2, 3]))

    def out():
        return torch.tensor([10.0, 20, 3], device="mps")

    for op, by in ((pyg.segment_sum_coo, index), (pyg.segment_sum_csr, pointer)):
        given = out()
        assert op(src, by, given) is not None
        assert given.tolist() == [13, 20, 7]  # added to
    for op, by, wanted in (
        (pyg.segment_mean_coo, index, [1.5, 20, 4]),  # empty segments stay
        (pyg.segment_mean_csr, pointer, [1.5, 0, 4]),  # all are written
    ):
        given = out()
        op(src, by, given)
        assert given.tolist() == wanted
    for op, by in ((pyg.segment_max_coo, index), (pyg.segment_max_csr, pointer)):
        given = out()
        values, places = op(src, by, given)
        assert values.tolist() == given.tolist() == [10, 20, 4]  # goes on
        assert places.tolist() == [3, 3, 2]
    for op, by in ((pyg.gather_coo, index), (pyg.gather_csr, pointer)):
        given = out()
        op(out(), by, given)
        assert given.tolist() == [10, 10, 3]
    longer = torch.full((5,), -1.0, device="mps")
    pyg.gather_csr(out(), pointer, longer)
    assert longer.tolist() == [10, 10, 3, -1, -1]


def test_gather(pyg):
    src = torch.arange(8.0).view(4, 2)
    index = torch.tensor([3, 0, 0, 2])
    got = pyg.gather_coo(src.to("mps"), index.to("mps"))
    assert torch.equal(got.cpu(), src[index])
    pointer = torch.tensor(POINTER)
    got = pyg.gather_csr(src.to("mps"), pointer.to("mps"))
    assert torch.equal(got.cpu(), src.repeat_interleave(pointer.diff(), dim=0))
    batch = torch.stack([src, src + 8])
    index = torch.tensor([[0, 3, 1], [2, 2, 0]])
    got = pyg.gather_coo(batch.to("mps"), index.to("mps"))
    assert torch.equal(got.cpu(), torch.stack([batch[0][index[0]], batch[1][index[1]]]))
    outside = pyg.gather_coo(src[:, 0].to("mps"), torch.tensor([0, 4, -1], device="mps"))
    assert outside.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("by", ["coo", "csr"])
@pytest.mark.parametrize("name", ["sum", "mean", "min", "max", "gather"])
def test_gradients(pyg, by, name):
    pointer = torch.tensor(POINTER)
    index = torch.repeat_interleave(torch.arange(4), pointer.diff())
    rows = 4 if name == "gather" else 9
    src = torch.randn(rows, 3, generator=torch.Generator().manual_seed(3))
    grads = []
    for device in ("cpu", "mps"):
        leaf = src.clone().to(device).requires_grad_()
        if device == "cpu" and name == "gather":
            out = leaf[index]
        elif device == "cpu":
            out = csr(name, leaf, POINTER)
        else:
            op = getattr(pyg, f"gather_{by}" if name == "gather" else f"segment_{name}_{by}")
            out = as_list(op(leaf, (index if by == "coo" else pointer).to("mps")))[0]
        (out * torch.arange(out.numel(), device=device).view(out.shape)).sum().backward()
        grads.append((out.detach().cpu(), leaf.grad.cpu()))
    for wanted, got in zip(*grads, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((9,), 0), ((9, 3), 0), ((2, 9, 3), 1), ((2, 9), -1)])
def test_softmax(pyg, shape, dim, dtype):
    src = (3 * torch.randn(shape, generator=torch.Generator().manual_seed(4))).to(dtype)
    pointer = torch.tensor(POINTER)
    grads = torch.randn(shape, generator=torch.Generator().manual_seed(5)).to(dtype)
    plain = src.float().clone().requires_grad_()
    parts = plain.split(pointer.diff().tolist(), dim)
    wanted = torch.cat([part.softmax(dim) for part in parts], dim)
    wanted.backward(grads.float())
    leaf = src.to("mps").requires_grad_()
    got = pyg.softmax_csr(leaf, pointer.to("mps"), dim)
    got.backward(grads.to("mps"))
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if dtype == torch.float16 else {}
    assert got.dtype == leaf.grad.dtype == dtype
    torch.testing.assert_close(got.detach().cpu().float(), wanted.detach(), **tolerance)
    torch.testing.assert_close(leaf.grad.cpu().float(), plain.grad, **tolerance)
    direct = pyg.softmax_csr_backward(got.detach(), grads.to("mps"), pointer.to("mps"), dim)
    torch.testing.assert_close(direct, leaf.grad, **tolerance)


def test_softmax_of_extremes_and_nothing(pyg):
    src = torch.tensor([1e4, 1e4, -1e4, 7.0, -torch.inf, 0.0], device="mps")
    pointer = torch.tensor([0, 3, 3, 6], device="mps")
    got = pyg.softmax_csr(src, pointer)
    wanted = torch.cat([src[:3].cpu().softmax(0), src[3:].cpu().softmax(0)])
    torch.testing.assert_close(got.cpu(), wanted)
    outside = pyg.softmax_csr(src[:4], torch.tensor([1, 3], device="mps"))
    assert outside[[0, 3]].tolist() == [0, 0]
    empty = pyg.softmax_csr(src[:0], torch.tensor([0, 0], device="mps"))
    assert empty.shape == (0,)


def test_readbacks(pyg):
    src, pointer = torch.rand(9, 2, device="mps"), torch.tensor(POINTER, device="mps")
    for name in REDUCTIONS:
        getattr(pyg, f"segment_{name}_csr")(src, pointer)
    with mps_emulator.count_readbacks() as reads:
        for name in REDUCTIONS:
            getattr(pyg, f"segment_{name}_csr")(src, pointer)
        pyg.softmax_csr(src, pointer)
    assert reads.count == 0, reads.operators
    with mps_emulator.count_readbacks() as reads:
        pyg.gather_csr(src[:4], pointer)
    assert reads.count == 1, reads.operators


def test_pointers_out_of_range_read_nothing_outside(pyg):
    src = torch.ones(4, device="mps")
    for pointer, wanted in (([-3, 2, 9], [2, 2]), ([3, 1, 4], [0, 3]), ([9, 9, 9], [0, 0])):
        assert pyg.segment_sum_csr(src, torch.tensor(pointer, device="mps")).tolist() == wanted


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda o, s, p: o.segment_sum_csr(s, p.float()), TypeError, "indptr must be int64"),
        (lambda o, s, p: o.segment_sum_csr(s, p, s), ValueError, "out must be of 4 segments"),
        (lambda o, s, p: o.segment_mean_csr(s.long(), p), TypeError, "src must be of one"),
        (lambda o, s, p: o.segment_sum_coo(s, p), ValueError, "of the first axes of src"),
        (lambda o, s, p: o.gather_csr(s, p), ValueError, "src must be of 4 segments"),
        (lambda o, s, p: o.softmax_csr(s, p, 2), ValueError, "dim must be from -2 to 1"),
        (lambda o, s, p: o.softmax_csr(s, p[None]), ValueError, "ptr must be a vector"),
        (lambda o, s, p: o.softmax_csr_backward(s, s[:3], p), ValueError, "out_grad must be"),
    ],
)  # fmt: skip
def test_bad_input(pyg, call, error, words):
    src, pointer = torch.rand(9, 2, device="mps"), torch.tensor(POINTER, device="mps")
    with pytest.raises(error, match=words):
        call(pyg, src, pointer)


def test_gather_of_nothing(pyg):
    src = torch.ones(3, 2, device="mps", requires_grad=True)
    none = torch.empty(0, dtype=torch.int64, device="mps")
    got = pyg.gather_coo(src, none)
    assert got.shape == (0, 2)
    got.sum().backward()
    assert src.grad.tolist() == [[0, 0]] * 3
    assert pyg.gather_coo(src[:, None], none.expand(3, 0)).shape == (3, 0, 2)
    pointer = torch.tensor([0, 0, 0, -2], device="mps")
    assert pyg.gather_csr(src, pointer).shape == (0, 2)
