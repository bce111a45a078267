"""Against torch's own CPU kernel."""

import pytest
import torch

OFFSETS = [0, 3, 3, 4, 9]
REDUCTIONS = ["sum", "mean", "max", "min", "prod"]


def both(data, reduce, axis=0, **arguments):
    """Results and gradients on the CPU and on MPS."""
    found = []
    for device in ("cpu", "mps"):
        leaf = data.clone().to(device).requires_grad_()
        given = {
            k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()
        }
        out = torch._segment_reduce(leaf, reduce, axis=axis, **given)
        weights = torch.arange(1.0, 1 + out.numel(), device=device).view(out.shape) / 8
        (out * weights.to(out.dtype)).sum().backward()
        assert out.device.type == leaf.grad.device.type == device
        found.append((out.detach().cpu(), leaf.grad.cpu()))
    return zip(*found, strict=True)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("shape", [(9,), (9, 3), (9, 2, 2)])
@pytest.mark.parametrize("initial", [None, 0, 1.5])
def test_equals_torch_on_the_cpu(reduce, shape, initial):
    data = torch.randint(-2, 4, shape, generator=torch.Generator().manual_seed(1)) / 2
    offsets = torch.tensor(OFFSETS)
    for arguments in ({"offsets": offsets}, {"lengths": offsets.diff()}):
        for wanted, got in both(data, reduce, initial=initial, **arguments):
            torch.testing.assert_close(got, wanted, equal_nan=True)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_leading_axis_half_and_nan(reduce):
    data = torch.rand(2, 9, generator=torch.Generator().manual_seed(2))
    offsets = torch.tensor([OFFSETS, [0, 1, 2, 5, 9]])
    for wanted, got in both(data, reduce, axis=1, offsets=offsets):
        torch.testing.assert_close(got, wanted, equal_nan=True)
    for wanted, got in both(data.half(), reduce, axis=1, offsets=offsets, initial=1):
        torch.testing.assert_close(got, wanted, rtol=2e-3, atol=2e-3)
    data[0, 4] = torch.nan
    plain = torch._segment_reduce(data, reduce, axis=1, offsets=offsets, initial=1)
    got = torch._segment_reduce(
        data.to("mps"), reduce, axis=1, offsets=offsets.to("mps"), initial=1
    )
    torch.testing.assert_close(got.cpu(), plain, equal_nan=True)


def test_refuses():
    data, offsets = torch.rand(9, device="mps"), torch.tensor(OFFSETS, device="mps")
    with pytest.raises(ValueError, match="reduce must be one of"):
        torch._segment_reduce(data, "median", offsets=offsets)
    with pytest.raises(ValueError, match="one of lengths and offsets"):
        torch._segment_reduce(data, "sum")
    with pytest.raises(ValueError, match="axis must be the last"):
        torch._segment_reduce(data, "sum", offsets=offsets[None])
    with pytest.raises(TypeError, match="data must be a float tensor"):
        torch._segment_reduce(offsets, "sum", offsets=offsets)
