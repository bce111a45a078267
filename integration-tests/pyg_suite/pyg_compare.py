"""The same call on CPU and MPS tensors, compared."""

import copy

import torch
from torch import Tensor

# What a Mac may round in another way (sums in another order, its own exp) against the largest
# value of the tensor: float32 has 2**-24, a layer adds some hundred terms, a model has ten layers.
RELATIVE = 1e-4


def on(value, device):
    """The value, its tensors copied to the device; leaves that want a gradient stay leaves."""
    if isinstance(value, Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return type(value)(on(item, device) for item in value)
    if isinstance(value, dict):
        return {key: on(item, device) for key, item in value.items()}
    if hasattr(value, "to_dict"):  # Data
        return value.clone().to(device)
    return value


def tensors(value):
    """All tensors in a result, in order, with a name."""
    if isinstance(value, Tensor):
        return [("", value)]
    if isinstance(value, (tuple, list)):
        value = dict(enumerate(value))
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, dict):
        return [(f"{k}.{n}", t) for k, item in value.items() for n, t in tensors(item)]
    return []


def assert_close(got, wanted, name="", floor=0.0):
    """Integers equal; floats up to rounding of the largest value, or of `floor` if that is more."""
    assert got.device.type == "mps", f"{name} is on {got.device}"
    assert got.dtype == wanted.dtype, name
    assert got.shape == wanted.shape, f"{name}: {tuple(got.shape)} for {tuple(wanted.shape)}"
    got, wanted = got.detach().cpu(), wanted.detach()
    if not wanted.is_floating_point():
        assert torch.equal(got, wanted), name
        return
    assert bool(torch.isfinite(wanted).all()), name
    if wanted.numel():
        allowed = RELATIVE * max(float(wanted.abs().max()), floor)
        assert float((got - wanted).abs().max()) <= allowed, name


def same(function, *inputs, **more):
    """Calls it on CPU and on MPS copies of the inputs and compares; gives the CPU's result."""
    wanted = function(*on(inputs, "cpu"), **on(more, "cpu"))
    got = function(*on(inputs, "mps"), **on(more, "mps"))
    pairs = list(zip(tensors(wanted), tensors(got), strict=True))
    assert pairs
    for (name, w), (other, g) in pairs:
        assert name == other
        assert_close(g, w, name)
    return wanted


def run(model, inputs):
    """Forward, a loss that weighs every output differently, backward."""
    out = model(*inputs)
    outs = [t for _, t in tensors(out) if t.is_floating_point()]
    loss = sum(
        (t * torch.linspace(-1, 1, t.numel()).view(t.shape).to(t.device)).sum() for t in outs
    )
    loss.backward()
    grads = {f"input {i}": t.grad for i, t in enumerate(inputs) if isinstance(t, Tensor)}
    grads |= {name: p.grad for name, p in model.named_parameters()}
    return out, {name: grad for name, grad in grads.items() if grad is not None}


def same_model(make, *inputs, without_gradient=0):
    """A model with the same weights on both devices: outputs, all gradients and buffers equal.

    Args:
        make: Makes the model; called once, with a fixed seed.
        *inputs: Of the forward call; tensors that require grad are compared by their gradients.
        without_gradient: How many parameters the loss does not depend on.
    """
    torch.manual_seed(12)
    model = make()
    twin = copy.deepcopy(model).to("mps")
    wanted, wanted_grads = run(model, on(inputs, "cpu"))
    got, got_grads = run(twin, on(inputs, "mps"))
    for (name, w), (other, g) in zip(tensors(wanted), tensors(got), strict=True):
        assert name == other
        assert_close(g, w, f"output {name}")
    assert wanted_grads.keys() == got_grads.keys()
    wanting = sum(isinstance(t, Tensor) and t.requires_grad for t in inputs)
    count = len(list(model.parameters())) + wanting - without_gradient
    assert len(wanted_grads) == count
    largest = max(float(grad.abs().max()) for grad in wanted_grads.values())
    assert largest > 0
    for name, grad in wanted_grads.items():
        # a gradient that is zero but for rounding (a bias before BatchNorm) is measured by others
        assert_close(got_grads[name], grad, f"gradient of {name}", floor=1e-2 * largest)
    buffers = dict(twin.named_buffers())
    for name, buffer in model.named_buffers():
        assert_close(buffers[name], buffer, f"buffer {name}")
    return wanted


def clouds(sizes=(40, 0, 57, 31), dim=3, seed=0):
    """Points of clouds in a row and their batch vector; a size of 0 is a gap in it."""
    rng = torch.Generator().manual_seed(seed)
    points = torch.rand(sum(sizes), dim, generator=rng)
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return points, batch


def features(size, channels, seed=1):
    """Features that want a gradient."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(size, channels, generator=rng).requires_grad_()


def squared_distances(x, y, batch_x=None, batch_y=None):
    """[M, N] in float64 from every y to every x; infinite between clouds."""
    d2 = (y.double()[:, None] - x.double()[None]).pow(2).sum(-1)
    if batch_x is not None:
        d2 = d2.masked_fill(batch_y[:, None] != batch_x[None], torch.inf)
    return d2
