import pytest
import torch

import mps_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
REDUCTIONS = ["sum", "mul", "mean", "min", "max"]


def values_of(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    # few different values: ties, and products that are exact
    values = torch.randint(-2, 3, shape, generator=generator)
    return (values.clamp(min=0) if dtype == torch.uint8 else values).to(dtype)


def start_of(reduction, src, shape):
    return src.new_full(shape, 1 if reduction == "mul" else 0)


def reference(reduction, src, index, dim, count, out=None):
    """One element after the other, as a loop: values and positions."""
    src, index = src.movedim(dim, -1), index.expand(src.shape).movedim(dim, -1)
    rows, indices = src.reshape(-1, src.shape[-1]), index.reshape(-1, src.shape[-1])
    given = out is not None
    out = out.movedim(dim, -1) if given else start_of(reduction, src, (*src.shape[:-1], count))
    shape = out.shape
    out = out.reshape(-1, count).clone()
    arg = torch.full(out.shape, src.shape[-1])
    number = torch.zeros(out.shape, dtype=torch.int64)
    for r, row in enumerate(rows):
        for e, value in enumerate(row):
            n = int(indices[r, e])
            number[r, n] += 1
            if reduction in ("sum", "mean"):
                out[r, n] += value
            elif reduction == "mul":
                out[r, n] *= value
            elif value.isnan():
                continue
            else:
                new = number[r, n] == 1 and not given
                new = new or (arg[r, n] == src.shape[-1] and not given)
                if new or (value < out[r, n] if reduction == "min" else value > out[r, n]):
                    out[r, n], arg[r, n] = value, e
    if reduction == "mean":
        mode = None if out.is_floating_point() else "floor"
        out = torch.div(out, number.clamp(min=1), rounding_mode=mode).to(out.dtype)
    back = [t.reshape(shape).movedim(-1, dim) for t in (out, arg)]
    return back if reduction in ("min", "max") else back[:1]


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


def same(got, wanted):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.device.type == "mps"
        assert a.dtype == b.dtype
        assert a.is_contiguous()
        assert torch.equal(a.cpu(), b.contiguous())


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scatter_equals_the_loop(pyg, reduction, dtype):
    src = values_of((33, 3), dtype)
    index = torch.randint(0, 9, (33,), generator=torch.Generator().manual_seed(1))
    index[index == 4] = 5  # nothing points to 4
    op = getattr(pyg, f"scatter_{reduction}")
    got = as_list(op(src.to("mps"), index.to("mps"), 0, None, 11))
    same(got, reference(reduction, src, index[:, None], 0, 11))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "dim", "index_shape"),
    [((7,), 0, (7,)), ((5, 6), 1, (6,)), ((5, 6), -1, (5, 6)), ((4, 5, 3), 1, (5,)),
     ((4, 5, 3), 1, (4, 5)), ((4, 5, 3), 1, (4, 5, 3)), ((4, 5, 3), 0, (4, 1, 3)),
     ((2, 3, 2, 2), -2, (1, 1, 2, 1))],
)  # fmt: skip
def test_index_is_broadcast(pyg, reduction, shape, dim, index_shape):
    src = values_of(shape, torch.float32)
    index = torch.randint(0, 3, index_shape, generator=torch.Generator().manual_seed(2))
    full = index
    if index.dim() == 1:
        full = index.view(*[1] * (dim % len(shape)), -1)
    full = full.view(*full.shape, *[1] * (len(shape) - full.dim()))
    op = getattr(pyg, f"scatter_{reduction}")
    wanted = reference(reduction, src, full, dim, int(index.max()) + 1)
    same(as_list(op(src.to("mps"), index.to("mps"), dim)), wanted)
    # expanded before the call, strided values
    strided = src.to("mps").transpose(0, -1).contiguous().transpose(0, -1)
    same(as_list(op(strided, full.to("mps").expand(shape), dim)), wanted)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_scatter_goes_on_from_out(pyg, reduction, dtype):
    src = values_of((20, 2), dtype)
    index = torch.arange(20) % 6
    start = values_of((7, 2), dtype, seed=3)
    out = start.to("mps")
    got = as_list(
        getattr(pyg, f"scatter_{reduction}")(src.to("mps"), index.to("mps"), 0, out, None)
    )
    assert got[0].data_ptr() == out.data_ptr()
    same(got, reference(reduction, src, index[:, None], 0, 7, start))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nothing_to_scatter(pyg, reduction):
    op = getattr(pyg, f"scatter_{reduction}")
    src, index = torch.empty(0, 3, device="mps"), torch.empty(0, dtype=torch.int64, device="mps")
    for size, count in ((None, 0), (4, 4)):
        out = as_list(op(src, index, 0, None, size))
        assert out[0].shape == (count, 3)
        assert (out[0] == (1 if reduction == "mul" else 0)).all()
    wide = as_list(op(torch.empty(5, 0, device="mps"), torch.arange(5, device="mps"), 0))
    assert wide[0].shape == (5, 0)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1023, 1025])
def test_sums_are_those_of_a_loop_bit_for_bit(pyg, size):
    src = torch.randn(size, generator=torch.Generator().manual_seed(size))
    for index in (torch.zeros(size, dtype=torch.int64), torch.arange(size) % 7):
        wanted = torch.zeros(7)
        for value, n in zip(src, index.tolist(), strict=True):
            wanted[n] += value
        got = pyg.scatter_sum(src.to("mps"), index.to("mps"), 0, None, 7)
        assert torch.equal(got.cpu(), wanted)


def test_numbers_that_are_none(pyg):
    nan, inf = float("nan"), float("inf")
    src = torch.tensor([nan, 1, inf, nan, -inf, -0.0, 0.0, nan, inf], device="mps")
    index = torch.tensor([0, 0, 1, 1, 2, 3, 3, 4, 4], device="mps")
    low, low_at = pyg.scatter_min(src, index, 0)
    high, high_at = pyg.scatter_max(src, index, 0)
    assert low.tolist() == [1, inf, -inf, 0, inf]
    assert low_at.tolist() == [1, 2, 4, 5, 8]
    assert high.tolist() == [1, inf, -inf, 0, inf]
    assert high_at.tolist() == [1, 2, 4, 5, 8]
    only = pyg.scatter_max(src[:1], index[:1], 0)
    assert [t.tolist() for t in only] == [[0.0], [1]]
    assert pyg.scatter_sum(src, index, 0).isnan().tolist() == [True, True, False, False, True]


def test_integers_wrap_and_are_exact(pyg):
    big = torch.tensor([2**62, 2**62, 5, 2**53 + 1], device="mps")
    index = torch.tensor([0, 0, 1, 1], device="mps")
    assert pyg.scatter_sum(big, index, 0).tolist() == [-(2**63), 2**53 + 6]
    assert pyg.scatter_max(big, index, 0)[0].tolist() == [2**62, 2**53 + 1]
    small = torch.tensor([200, 100], dtype=torch.uint8, device="mps")
    assert pyg.scatter_sum(small, index[:2], 0).tolist() == [44]
    means = pyg.scatter_mean(torch.tensor([-1, -2, 3, 4], device="mps"), index, 0)
    assert means.tolist() == [-2, 3]


def test_indices_out_of_range_are_left_out(pyg):
    src = torch.arange(1.0, 6, device="mps")
    index = torch.tensor([0, -1, 2, 3, 1], device="mps")
    assert pyg.scatter_sum(src, index, 0, None, 3).tolist() == [1, 5, 3]
    assert pyg.scatter_max(src, index, 0, None, 3)[1].tolist() == [0, 4, 2]


def test_a_segment_longer_than_a_dispatch(pyg, monkeypatch):
    from pyg_lib_mps_plugin._ops import segments

    monkeypatch.setattr(segments, "_WINDOW", 8)
    src = torch.randn(50, generator=torch.Generator().manual_seed(4))
    index = (torch.arange(50) % 5 == 0).to(torch.int64)
    for reduction in REDUCTIONS:
        op = getattr(pyg, f"scatter_{reduction}")
        same(as_list(op(src.to("mps"), index.to("mps"))), reference(reduction, src, index, 0, 2))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("with_out", [False, True])
def test_gradients(pyg, reduction, with_out):
    src = torch.randn(12, 3, generator=torch.Generator().manual_seed(5))
    index = torch.tensor([3, 1, 0, 0, 1, 3, 3, 5, 1, 0, 5, 5])
    start = torch.randn(6, 3, generator=torch.Generator().manual_seed(6))

    def plain(src, out):
        name = {"mul": "prod", "min": "amin", "max": "amax"}.get(reduction, reduction)
        full = index.unsqueeze(1).expand(-1, 3)
        if out is not None and reduction == "mean":
            number = torch.bincount(index, minlength=6).clamp(min=1).unsqueeze(1)
            return out.scatter_reduce(0, full, src, "sum", include_self=True) / number
        if out is None:
            out, include = torch.full((6, 3), float(reduction == "mul")), False
        else:
            include = True
        return out.scatter_reduce(0, full, src, name, include_self=include)

    def ours(src, out):
        given = None if out is None else out.clone()
        op = getattr(pyg, f"scatter_{reduction}")
        return as_list(op(src, index.to("mps"), 0, given, None if with_out else 6))[0]

    results = []
    for device, function in (("cpu", plain), ("mps", ours)):
        leaf = src.clone().to(device).requires_grad_()
        other = start.clone().to(device).requires_grad_() if with_out else None
        result = function(leaf, other)
        weights = torch.arange(18.0).view(6, 3).to(device)
        (result * weights).sum().backward()
        found = [result.detach(), leaf.grad] + ([other.grad] if with_out else [])
        results.append([t.cpu() for t in found])
    for wanted, got in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_gradient_of_a_product_with_zeros_is_that_of_pyg_lib(pyg):
    src = torch.tensor([0.0, 2, 3], device="mps", requires_grad=True)
    index = torch.tensor([0, 0, 1], device="mps")
    pyg.scatter_mul(src, index, 0).sum().backward()
    assert src.grad.tolist() == [0, 0, 1]


def test_second_derivative(pyg):
    src = torch.randn(6, device="mps", requires_grad=True)
    index = torch.tensor([0, 1, 0, 2, 2, 2], device="mps")
    (first,) = torch.autograd.grad((pyg.scatter_sum(src, index) ** 3).sum(), src, create_graph=True)
    first.sum().backward()
    sums = pyg.scatter_sum(src.detach(), index)
    wanted = 6 * sums[index] * torch.tensor([2, 1, 3], device="mps")[index]
    torch.testing.assert_close(src.grad, wanted)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_readbacks(pyg, reduction):
    src, index = torch.rand(40, 2, device="mps"), torch.arange(40, device="mps") // 4
    op = getattr(pyg, f"scatter_{reduction}")
    op(src, index, 0)
    for size, most in ((10, 0), (None, 1)):
        with mps_emulator.count_readbacks() as reads:
            op(src, index, 0, None, size)
        assert reads.count <= most, reads.operators


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (lambda s, i: (s.bool(), i), TypeError, "pyg::scatter_sum: src must be"),
        (lambda s, i: (s, i.float()), TypeError, "index must be int64 or int32"),
        (lambda s, i: (s, i.cpu()), ValueError, "on the device of src"),
        (lambda s, i: (s, i, 2), ValueError, "dim must be from -2 to 1"),
        (lambda s, i: (s, i[:3], 0), ValueError, "broadcastable to src"),
        (lambda s, i: (s, i, 0, s[:, :1]), ValueError, "out must be of the shape of src"),
        (lambda s, i: (s, i, 0, s.half()), ValueError, "out must be torch.float32"),
    ],
)
def test_bad_input(pyg, arguments, error, words):
    src, index = torch.rand(4, 2, device="mps"), torch.arange(4, device="mps")
    with pytest.raises(error, match=words):
        pyg.scatter_sum(*arguments(src, index))


def test_default_dtype_has_no_say(pyg):
    src, index = torch.rand(9, device="mps"), torch.arange(9, device="mps") // 2
    before = [as_list(getattr(pyg, f"scatter_{r}")(src, index)) for r in REDUCTIONS]
    torch.set_default_dtype(torch.float64)
    try:
        after = [as_list(getattr(pyg, f"scatter_{r}")(src, index)) for r in REDUCTIONS]
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in zip(before, after, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_shaders_pass_the_static_check():
    from mps_emulator.check import check_source
    from mps_pointops._metal import variants
    from pyg_lib_mps_plugin._ops import segments  # noqa: F401

    mine = [(name, text) for name, text in variants() if name.startswith("reduce.metal")]
    assert len(mine) == 24
    for name, text in mine[::5]:
        assert check_source(text, name, require_contract_off=True) == []


def test_no_value_at_all_is_a_part_of_the_graph(pyg):
    """A graph without edges must not stop a backward pass."""
    pointer, none = torch.tensor([0, 0, 0], device="mps"), torch.empty(0, dtype=torch.int64)
    for call in (
        *(lambda s, r=r: getattr(pyg, f"scatter_{r}")(s, none.to("mps"), 0, None, 2)
          for r in REDUCTIONS),
        lambda s: pyg.segment_max_coo(s, none.to("mps"), None, 2),
        lambda s: pyg.segment_min_csr(s, pointer),
        lambda s: pyg.softmax_csr(s, pointer),
        lambda s: pyg.gather_csr(s, pointer[:1]),
    ):  # fmt: skip
        leaf = torch.empty(0, 3, device="mps", requires_grad=True)
        as_list(call(leaf))[0].sum().backward()
        assert leaf.grad.shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("size", [127, 128, 256, 40000])
def test_means_of_many_narrow_integers(pyg, dtype, size):
    src = values_of((size,), dtype) * 40
    index = torch.zeros(size, dtype=torch.int64)
    wanted = torch.tensor([int(src.long().sum()) // size], dtype=dtype)
    same([pyg.scatter_mean(src.to("mps"), index.to("mps"), 0)], [wanted])


def test_number_of_segments(pyg):
    src, index = torch.ones(2, device="mps"), torch.tensor([-5, -7], device="mps")
    assert pyg.scatter_sum(src, index, 0).shape == (0,)
    with pytest.raises(ValueError, match="dim_size must be at least 0, got -1"):
        pyg.scatter_sum(src, index, 0, None, -1)


def test_means_of_large_integers(pyg):
    src = torch.tensor([2**24 + 1, 2**53 + 1, -(2**53) - 1, 2**62, 2**62 - 1, -3, -4])
    index = torch.tensor([0, 1, 2, 3, 3, 4, 4])
    found = pyg.scatter_mean(src.to("mps"), index.to("mps"), 0, None, 5)
    assert found.tolist() == [2**24 + 1, 2**53 + 1, -(2**53) - 1, 2**62 - 1, -4]
