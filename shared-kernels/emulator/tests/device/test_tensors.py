from __future__ import annotations

import copy
import io
import pickle
import warnings

import numpy as np
import pytest
import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
]


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = int(np.prod(shape))
    return torch.arange(count, device="mps").to(dtype).reshape(shape)


def test_is_a_real_mps_tensor() -> None:
    x = torch.ones(3, device="mps")
    assert type(x) is torch.Tensor
    assert x.is_mps
    assert x.device == torch.device("mps", 0)
    keys = torch._C._dispatch_keys(x)
    assert keys.has(torch._C.DispatchKey.MPS)
    assert keys.has(torch._C.DispatchKey.AutogradMPS)
    assert not keys.has(torch._C.DispatchKey.CPU)


def test_backend_answers() -> None:
    assert torch.backends.mps.is_available()
    assert torch.backends.mps.is_built()
    if hasattr(torch.mps, "is_available"):  # not in every release
        assert torch.mps.is_available()
    assert torch.mps.device_count() == 1
    torch.mps.synchronize()
    torch.mps.empty_cache()
    assert torch.mps.recommended_max_memory() > 2**20


def test_accelerator_answers() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.current_accelerator() == torch.device("mps")
    torch.accelerator.synchronize()


def test_memory_statistics() -> None:
    before = torch.mps.current_allocated_memory()
    x = torch.empty(1000, device="mps")
    assert torch.mps.current_allocated_memory() - before == 4000
    assert torch.mps.driver_allocated_memory() >= 4000
    del x
    assert torch.mps.current_allocated_memory() == before


def test_events_take_time() -> None:
    start, stop = (torch.mps.Event(enable_timing=True) for _ in range(2))
    start.record()
    sum(range(10000))
    stop.record()
    stop.synchronize()
    assert stop.query()
    assert start.elapsed_time(stop) > 0


def test_device_neutral_events() -> None:
    start, stop = (torch.Event("mps", enable_timing=True) for _ in range(2))
    start.record()
    stop.record()
    assert start.elapsed_time(stop) > 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype: torch.dtype) -> None:
    host = torch.tensor([[0, 1, 1], [2, 3, 0]]).to(dtype)
    device = host.to("mps")
    assert device.is_mps
    assert device.dtype == dtype
    back = device.cpu()
    assert back.device.type == "cpu"
    assert torch.equal(back, host)


def test_factories() -> None:
    assert torch.zeros(2, 3, device="mps").tolist() == [[0.0] * 3] * 2
    assert torch.full((2,), 7, device="mps").tolist() == [7, 7]
    assert torch.arange(1, 4, device="mps").tolist() == [1, 2, 3]
    assert torch.linspace(0, 1, 3, device="mps").tolist() == [0.0, 0.5, 1.0]
    assert torch.eye(2, device="mps").tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.tensor([1, 2], device="mps").tolist() == [1, 2]
    assert torch.empty(0, 3, device="mps").shape == (0, 3)
    assert torch.empty_like(torch.ones(3, device="mps")).is_mps
    with torch.device("mps"):
        assert torch.ones(2).is_mps


def test_views_share_memory() -> None:
    x = torch.zeros(4, 3, device="mps")
    x[1].fill_(1)
    x[:, 2] = 2
    x.t()[0, 3] = 3
    x.view(12)[0] = 4
    x.unfold(0, 2, 2)[1, 1, 0] = 5
    assert x.tolist() == [[4, 0, 2], [1, 1, 2], [0, 5, 2], [3, 0, 2]]
    assert x[2:].storage_offset() == 6
    assert x[2:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_views_of_another_type_share_memory() -> None:
    x = torch.zeros(3, device="mps")
    x.view(torch.int32)[1] = 0x3F800000
    assert x.tolist() == [0, 1, 0]
    z = torch.zeros(2, dtype=torch.complex64, device="mps")
    torch.view_as_real(z)[1, 1] = 2
    assert z.tolist() == [0, 2j]
    assert z.conj().tolist() == [0, -2j]
    assert (z.conj() * 1).tolist() == [0, -2j]
    assert z.imag.tolist() == [0, 2]
    w = torch.view_as_complex(torch.ones(2, 2, device="mps"))
    assert w.tolist() == [1 + 1j] * 2


def test_in_place_and_out() -> None:
    x = numbers(3)
    assert x.add_(1).mul_(2).tolist() == [2, 4, 6]
    out = torch.empty(0, device="mps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = torch.add(x, x, out=out)
    assert result is out
    assert out.tolist() == [4, 8, 12]
    values, indices = torch.empty(0, device="mps"), torch.empty(0, dtype=torch.long, device="mps")
    torch.max(numbers(2, 3), dim=1, out=(values, indices))
    assert values.tolist() == [2, 5]
    assert indices.tolist() == [2, 2]
    target = torch.zeros(6, device="mps")
    torch.add(x, 1, out=target[3:])
    assert target.tolist() == [0, 0, 0, 3, 5, 7]


def test_overlapping_writes_are_refused() -> None:
    x = numbers(4)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].add_(x[:-1])


def test_metadata_in_place() -> None:
    x = numbers(2, 3)
    x.t_()
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
    x.unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    x.swapaxes_(0, 1)
    assert x.shape == (3, 2)


def test_resize() -> None:
    x = numbers(2)
    x.resize_(3)
    assert x[:2].tolist() == [0, 1]
    assert x[2:].view(torch.uint8).tolist() == [0xA5] * 4
    x.resize_(1, 2)
    assert x.tolist() == [[0, 1]]
    y = torch.empty(0, device="mps").resize_(1, 2, 2, 2, memory_format=torch.channels_last)
    assert y.stride() == (8, 1, 4, 2)


def test_set() -> None:
    x = numbers(6)
    y = torch.empty(0, device="mps").set_(x.untyped_storage(), 1, (2, 2), (1, 2))
    assert y.tolist() == [[1, 3], [2, 4]]
    z = torch.empty(0, device="mps")
    z.set_(x)
    z[0] = 9
    assert x[0].item() == 9
    assert z.set_().numel() == 0
    x.data = torch.ones(2, device="mps")
    assert x.tolist() == [1, 1]


def test_storage() -> None:
    storage = torch.UntypedStorage(12, device="mps")
    assert storage.device == torch.device("mps", 0)
    assert storage.nbytes() == 12
    assert bytes(torch.UntypedStorage([1, 2], device="mps").cpu()) == b"\x01\x02"
    x = numbers(3)
    assert torch.equal(torch.empty(0).set_(x.untyped_storage().cpu()), x.cpu())
    assert x.untyped_storage().clone().device.type == "mps"


def test_channels_last() -> None:
    host = torch.arange(24.0).reshape(1, 2, 3, 4)
    device = host.to("mps", memory_format=torch.channels_last)
    assert device.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(device.cpu(), host)
    assert (device + 1).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(device.contiguous().cpu(), host)


def test_copies() -> None:
    host = torch.arange(6.0).reshape(2, 3)
    device = torch.empty(3, 2, device="mps").t()
    assert torch.equal(device.copy_(host, non_blocking=True).cpu(), host)
    assert torch.equal(device.to("cpu", non_blocking=True), host)
    assert device.to("cpu", torch.float64).dtype == torch.float64
    device.copy_(torch.ones(3, dtype=torch.float64))  # converted on the host, as on a Mac
    assert device.tolist() == [[1, 1, 1]] * 2
    target = torch.empty(2, 3, dtype=torch.float64)
    assert target.copy_(device).sum() == 6
    assert device.clone().is_mps


def test_scalars() -> None:
    x = numbers(3)
    assert x.sum().item() == 3
    assert x[1].tolist() == 1
    assert float(x[2]) == 2.0
    assert int(x[2]) == 2
    assert bool((x > 1).any())
    assert (x + torch.tensor(2.0)).tolist() == [2, 3, 4]
    assert (x * np.float32(2)).tolist() == [0, 2, 4]


def test_indexing() -> None:
    x = numbers(4, 3)
    assert x[x > 9].tolist() == [10, 11]
    assert x[torch.tensor([0, 2], device="mps")].tolist() == [[0, 1, 2], [6, 7, 8]]
    assert x[torch.tensor([0, 2])].tolist() == [[0, 1, 2], [6, 7, 8]]
    assert x[[0, 2], 1].tolist() == [1, 7]
    assert (x > 9).nonzero().tolist() == [[3, 1], [3, 2]]
    index = torch.tensor([0, 0, 1], device="mps")
    x.index_put_((index,), torch.ones(3, 3, device="mps"), accumulate=True)
    assert x[0].tolist() == [2, 3, 4]
    x[x > 5] = 0
    assert x.max().item() == 5
    assert x.gather(1, torch.zeros(4, 1, dtype=torch.long, device="mps")).shape == (4, 1)
    assert torch.where(x > 1, x, 0.0).is_mps


def test_printing() -> None:
    assert repr(numbers(2)) == "tensor([0., 1.], device='mps:0')"
    assert "size=(2, 0)" in repr(torch.empty(2, 0, device="mps"))


def test_numpy_is_refused() -> None:
    with pytest.raises(TypeError, match="can't convert mps:0 device type tensor to numpy"):
        numbers(2).numpy()
    with pytest.raises(TypeError, match="can't convert mps:0 device type tensor to numpy"):
        np.asarray(numbers(2))


def test_deepcopy_and_pickle() -> None:
    x = numbers(2, 3)[1:]
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.is_mps
        assert torch.equal(x, y)
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    linear = copy.deepcopy(torch.nn.Linear(2, 2).to("mps"))
    assert linear.weight.is_mps


def test_save_and_load() -> None:
    x = numbers(4)
    file = io.BytesIO()
    torch.save({"whole": x, "part": x[2:]}, file)

    def load(**kwargs: object) -> dict[str, torch.Tensor]:
        file.seek(0)
        return dict(torch.load(file, **kwargs))

    same = load()
    assert same["whole"].is_mps
    assert same["part"].tolist() == [2, 3]
    same["whole"][2] = 9
    assert same["part"].tolist() == [9, 3]
    assert load(map_location="cpu")["whole"].device.type == "cpu"
    host = io.BytesIO()
    torch.save(torch.ones(2), host)
    host.seek(0)
    assert torch.load(host, map_location="mps").is_mps


def test_modules() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten()
    )
    model.append(torch.nn.Linear(8, 3)).to("mps")
    assert all(p.is_mps for p in model.parameters())
    host = copy.deepcopy(model).to("cpu")
    x = torch.rand(5, 1, 4, 4)
    torch.testing.assert_close(model(x.to("mps")).cpu(), host(x))
    optimizer = torch.optim.Adam(model.parameters())
    model(x.to("mps")).sum().backward()
    before = model[-1].bias.detach().clone()
    optimizer.step()
    assert not torch.equal(before, model[-1].bias)
    assert model.half()[0].weight.dtype == torch.float16


def test_attention() -> None:
    q, k, v = torch.rand(3, 1, 2, 5, 4).unbind()
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    on_device = [t.to("mps").requires_grad_() for t in (q, k, v)]
    result = torch.nn.functional.scaled_dot_product_attention(*on_device)
    torch.testing.assert_close(result.detach().cpu(), expected)
    result.sum().backward()
    assert on_device[0].grad is not None


def test_data_loader() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    loader = torch.utils.data.DataLoader(data, batch_size=3, pin_memory=False)
    assert [batch.to("mps").sum().item() for (batch,) in loader] == [3, 12]


def test_more_tensors_than_mappings() -> None:
    # 30,000 live blocks would need more guard pages than the kernel allows mappings
    tensors = [torch.ones(1, device="mps") for _ in range(30_000)]
    assert torch.stack(tensors).sum().item() == 30_000
