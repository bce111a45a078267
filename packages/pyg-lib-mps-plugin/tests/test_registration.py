import pytest
import torch

import pyg_lib_mps_plugin
from pyg_lib_mps_plugin import _registration, _status


@pytest.fixture
def library():
    """A library of someone else, gone after the test."""
    libraries = []

    def make(namespace="pyg"):
        libraries.append(torch.library.Library(namespace, "IMPL"))
        return libraries[-1]

    yield make
    for one in libraries:
        one._destroy()
    pyg_lib_mps_plugin.unregister()
    _registration.register()


def has(name, key="MPS"):
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def test_register_and_unregister(pyg, library):
    names = pyg_lib_mps_plugin.registered()
    assert list(names) == sorted(set(names))
    assert all(has(name) for name in names)
    pyg_lib_mps_plugin.unregister()
    assert pyg_lib_mps_plugin.registered() == ()
    assert not any(has(name) or has(name, "AutogradMPS") for name in names)
    pyg_lib_mps_plugin.unregister()
    _registration.register()
    _registration.register()
    assert pyg_lib_mps_plugin.registered() == names
    assert all(has(name) for name in names)


def test_kernels_of_others_stay(pyg, library):
    pyg_lib_mps_plugin.unregister()
    library().impl("knn", lambda *a: torch.full((2, 1), 7, device="mps"), "MPS")
    library().impl("fps", lambda *a: None, "CPU")
    library("aten").impl("_convert_indices_from_coo_to_csr", lambda *a, **k: a[0], "MPS")
    pyg_lib_mps_plugin._autoload()
    mine = pyg_lib_mps_plugin.registered()
    assert "pyg::knn" not in mine
    assert "pyg::fps" in mine
    assert "aten::_convert_indices_from_coo_to_csr" not in mine
    assert "aten::segment_reduce" in mine
    x = torch.zeros(1, 2, device="mps")
    assert pyg.knn(x, x).tolist() == [[7], [7]]


class OfTheSchema(torch.autograd.Function):
    """As pyg-lib's: the operator below autograd. Its gradient is wrong, to tell it from ours."""

    @staticmethod
    def forward(ctx, src, index):
        ctx.save_for_backward(index)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.pyg.scatter_sum(src, index)

    @staticmethod
    def backward(ctx, grad):
        return grad.gather(0, *ctx.saved_tensors) * 100, None


@pytest.mark.parametrize("of_the_schema", [False, True])
def test_gradient_with_and_without_one_of_the_schema(pyg, library, of_the_schema):
    """pyg-lib registers an Autograd kernel for all devices; the one for MPS comes before it."""
    if of_the_schema:
        library().impl("scatter_sum", lambda s, i, *a: OfTheSchema.apply(s, i), "Autograd")
    leaf = torch.tensor([1.0, 2, 3], device="mps", requires_grad=True)
    index = torch.tensor([0, 1, 1], device="mps")
    (pyg.scatter_sum(leaf, index) ** 2).sum().backward()
    assert leaf.grad.tolist() == [2, 10, 10]
    with torch.no_grad():
        assert not pyg.scatter_sum(leaf, index).requires_grad


def test_gradient_of_the_schema_alone(pyg, library):
    """Were ours not there: the MPS kernel is what the schema's gradient calls."""
    pyg_lib_mps_plugin.unregister()
    from pyg_lib_mps_plugin._ops.scatter import scatter_sum

    library().impl("scatter_sum", lambda s, i, *a: OfTheSchema.apply(s, i), "Autograd")
    library().impl("scatter_sum", scatter_sum, "MPS")
    leaf = torch.tensor([1.0, 2, 3], device="mps", requires_grad=True)
    pyg.scatter_sum(leaf, torch.tensor([0, 1, 1], device="mps")).sum().backward()
    assert leaf.grad.tolist() == [100, 100, 100]


def test_below_autograd(pyg):
    """What pyg-lib's own autograd functions do: call below autograd, and write into `out`."""
    leaf = torch.tensor([1.0, 2, 3], device="mps", requires_grad=True)
    index = torch.tensor([0, 1, 1], device="mps")
    out = torch.zeros(2, device="mps")
    with torch._C._AutoDispatchBelowAutograd(), torch.no_grad():
        pyg.segment_sum_coo(leaf, index, out)
    assert out.tolist() == [1, 5]
    assert not out.requires_grad


def test_gradients_of_functorch_are_refused_not_zero(pyg):
    told = "functorch|autograd kernel was not registered"  # the second is the warning of torch 2.7
    index = torch.tensor([0, 1, 1], device="mps")
    for op in (pyg.scatter_sum, pyg.scatter_mul):
        with pytest.raises((RuntimeError, UserWarning), match=told):
            torch.func.grad(lambda t, op=op: op(t, index, 0).sum())(torch.ones(3, device="mps"))


def test_a_registration_that_fails_can_be_tried_again(monkeypatch):
    names = pyg_lib_mps_plugin.registered()
    pyg_lib_mps_plugin.unregister()
    with monkeypatch.context() as patch:
        patch.setattr(_registration, "_OF_TORCH", ((None, "", ""),))
        pyg_lib_mps_plugin._autoload()
    assert pyg_lib_mps_plugin.registered() == ()
    assert "registration at `import torch` failed" in pyg_lib_mps_plugin.check()
    pyg_lib_mps_plugin._autoload()
    assert pyg_lib_mps_plugin.registered() == names
    assert "failed" not in pyg_lib_mps_plugin.check()


def test_scripted_callers(pyg):
    source = """
def call(x: Tensor) -> Tensor:
    return torch.ops.pyg.knn(x, x, None, None, 1, False, 1)
"""
    unit = torch.jit.CompilationUnit(source)
    x = torch.tensor([[0.0, 0], [1, 0], [5, 5]], device="mps")
    assert unit.call(x).tolist() == [[0, 1, 2], [0, 1, 2]]


def test_cpu_tensors_are_none_of_our_business(pyg, library):
    library().impl("fps", lambda *a: torch.tensor([3]), "CPU")
    assert pyg.fps(torch.rand(4, 3), torch.tensor([0, 4])).tolist() == [3]


@pytest.mark.parametrize(
    ("version", "url", "fitting"),
    [
        ("2.9.1", "torch-2.9.0+cpu.html", "for torch 2.9: pyg-lib 0.7."),
        ("2.13.0+cu130", "torch-2.13.0+cpu.html", "for torch 2.13: pyg-lib 0.8."),
        ("2.7.0", "torch-2.7.0+cpu.html", "or use torch 2.13."),
        ("2.15.0a0+git", "torch-2.15.0+cpu.html", "none of these is for torch 2.15"),
    ],
)
def test_message_where_pyg_lib_is_missing(monkeypatch, version, url, fitting):
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(_status, "pyg_lib_is_there", lambda: False)
    with pytest.warns(UserWarning, match="pyg-lib is not installed") as caught:
        pyg_lib_mps_plugin.register()
    (one,) = caught
    text = str(one.message)
    assert one.filename == __file__
    assert f"pip install pyg-lib -f https://data.pyg.org/whl/{url}" in text
    assert fitting in text
    assert text in pyg_lib_mps_plugin.check()


def test_check_says_what_is_active(monkeypatch):
    monkeypatch.setattr(_status, "pyg_lib_is_there", lambda: True)
    text = pyg_lib_mps_plugin.check()
    assert "mps device: available" in text
    assert "pyg::knn" in text
    assert "pip install" not in text
    monkeypatch.setattr(pyg_lib_mps_plugin, "_failure", RuntimeError("no"))
    assert "registration at `import torch` failed: RuntimeError('no')" in pyg_lib_mps_plugin.check()
