"""CPU answers in any program: what it sets for all of torch and NumPy, and its threads."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import mps_pointops
from mps_pointops import flat, pytorch3d
from pointops_testing import assert_same_bits, cloud
from pointops_testing.calls import RANDOM, calls

CALLS = calls()
THREADS = torch.get_num_threads()


def _answer(name):
    found = CALLS[name]()
    return found if isinstance(found, tuple) else (found,)


@pytest.fixture(scope="module")
def wanted():
    torch.set_num_threads(1)
    found = {name: _answer(name) for name in CALLS}
    torch.set_num_threads(THREADS)
    return found


def _check(name, wanted):
    for got, plain in zip(_answer(name), wanted[name], strict=True):
        assert got.device == plain.device
        assert got.is_contiguous() == plain.is_contiguous()
        assert_same_bits(got, plain)


def _set(setter, value, before):
    @contextmanager
    def state():
        setter(value)
        try:
            yield
        finally:
            setter(before)

    return state


STATES = {
    "five threads": _set(torch.set_num_threads, 5, THREADS),
    "inference": torch.inference_mode,
    "no gradient": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "deterministic": _set(torch.set_deterministic_debug_mode, "error", "default"),
    "float64 default": _set(torch.set_default_dtype, torch.float64, torch.float32),
    "float16 default": _set(torch.set_default_dtype, torch.float16, torch.float32),
    "meta default": lambda: torch.device("meta"),
    "NumPy raises": lambda: np.errstate(all="raise"),
    "no subnormals": _set(torch.set_flush_denormal, True, False),
}


@pytest.fixture
def three_threads():
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(THREADS)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("error")
def test_state_of_the_program(name, state, wanted):
    with STATES[state]():
        _check(name, wanted)


def _gradients(features, index, weight, points):
    """Gradients of every operator that has one, of sums that torch shares out among threads."""
    size = features.shape[2]
    for function, inputs in (
        (lambda f: mps_pointops.gather_points(f, index[..., 0]), [features]),
        (lambda f: mps_pointops.group_points(f, index), [features]),
        (lambda f: mps_pointops.scatter_points(f, index[..., 0], size), [features]),
        (lambda f, w: mps_pointops.three_interpolate(f, index, w), [features, weight]),
        (lambda f, w: mps_pointops.three_scatter(f, index, w, size), [features, weight]),
        (lambda q, r: mps_pointops.ball_query(q, r, 2.0, 9)[0], [points[:, :500], points]),
        (lambda q, r: pytorch3d.knn_points(q, r, K=5).dists, [points[:, :500], points]),
    ):
        leaves = [part.detach().clone().requires_grad_() for part in inputs]
        out = function(*leaves)
        slope = torch.linspace(-1, 1, out.numel(), device="cpu", dtype=torch.float32)
        yield from torch.autograd.grad(out, leaves, slope.view(out.shape).to(out.dtype))


@pytest.mark.parametrize("state", [s for s in STATES if s not in ("inference", "no gradient")])
def test_gradients_in_any_state(state):
    rng = torch.Generator().manual_seed(0)
    index = torch.randint(32, (2, 2000, 3), generator=rng)
    weight = torch.rand(2, 2000, 3, generator=rng)
    data = cloud("random", 3200, 20).view(2, 16, 2000), index, weight, cloud("random", 3000)[None]
    torch.set_num_threads(1)
    wanted = list(_gradients(*data))
    torch.set_num_threads(THREADS)
    with STATES[state]():
        got = list(_gradients(*data))
    for g, w in zip(got, wanted, strict=True):
        assert_same_bits(g, w)


def test_every_operator_is_called():
    public = {name for name in mps_pointops.__all__ if name not in ("flat", "__version__")}
    public |= {f"flat.{name}" for name in flat.__all__}
    public |= {f"pytorch3d.{name}" for name in pytorch3d.__all__}
    public -= {"pytorch3d.KNN", "pytorch3d.sample_farthest_points_naive"}
    public -= {"pytorch3d.knn_gather", "pytorch3d.masked_gather"}  # of torch's own indexing
    public |= {f"SpatialIndex.{name}" for name in ("knn", "ball_query", "radius", "nearest")}
    assert {name.partition(",")[0] for name in CALLS} == public


def test_threads_of_the_program(wanted):
    """Calls of several threads at once, on one index too."""
    wrong = []
    names = [name for name in CALLS if name not in RANDOM]  # they share torch's generator

    def work(shift):
        for name in names[shift:] + names[:shift]:
            try:
                _check(name, wanted)
            except BaseException as error:
                wrong.append((name, error))

    threads = [threading.Thread(target=work, args=(7 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
