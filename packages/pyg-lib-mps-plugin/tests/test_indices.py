import pytest
import torch

import mps_emulator

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 1025, 3000])
def test_index_sort(pyg, size):
    values = torch.randint(0, max(1, size // 3), (size,))
    wanted = values.sort(stable=True)
    for given in (None, max(1, size // 3), 2**40):
        with mps_emulator.count_readbacks() as reads:
            got = pyg.index_sort(values.to("mps"), given)
        assert reads.count == 0
        assert got[1].dtype == torch.int64
        assert torch.equal(got[0].cpu(), wanted.values)
        assert torch.equal(got[1].cpu(), wanted.indices)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_index_sort_of_all_values(pyg, dtype):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = torch.tensor([5, high, low, 3, high, low, 0, 5], dtype=torch.int64).to(dtype)
    if dtype == torch.int64:
        values = torch.cat((values, torch.tensor([2**31, 2**32, -(2**31), 2**32 - 1, -1])))
    values = torch.cat((values, torch.randint(low // 2, high // 2, (300,)).to(dtype)))
    wanted = values.sort(stable=True)
    got = pyg.index_sort(values.to("mps"))
    assert torch.equal(got[0].cpu(), wanted.values)
    assert torch.equal(got[1].cpu(), wanted.indices)
    strided = torch.stack((values, values), 1).to("mps")[:, 1]
    assert torch.equal(pyg.index_sort(strided)[1].cpu(), wanted.indices)


def test_index_sort_refuses(pyg):
    with pytest.raises(TypeError, match="indices must be of one of int64"):
        pyg.index_sort(torch.rand(3, device="mps"))
    with pytest.raises(ValueError, match="indices must be a vector"):
        pyg.index_sort(torch.zeros(3, 2, dtype=torch.int64, device="mps"))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("narrow", [False, True])
def test_pointers_of_batch_vectors(dtype, narrow):
    for rows, size in (([0, 0, 1, 3, 3, 7], 9), ([], 3), ([], 0), ([2], 2), ([0, 1, 5], 2)):
        index = torch.tensor(rows, dtype=dtype)
        # not torch's own CPU kernel: it writes out of bounds for the last two
        wanted = torch.tensor([sum(row < n for row in rows) for n in range(size + 1)])
        wanted = wanted.to(torch.int32 if narrow else torch.int64)
        with mps_emulator.count_readbacks() as reads:
            got = torch._convert_indices_from_coo_to_csr(index.to("mps"), size, out_int32=narrow)
        assert reads.count == 0
        assert got.dtype == wanted.dtype
        assert torch.equal(got.cpu(), wanted)


def test_pointers_of_narrow_and_wrong_batch_vectors():
    index = torch.tensor([0, 1, 255], dtype=torch.uint8, device="mps")
    got = torch._convert_indices_from_coo_to_csr(index, 300).tolist()
    assert got == [0, 1] + [2] * 254 + [3] * 45
    for wrong, size in ((index.float(), 3), (index[None], 3), (index, -2)):
        with pytest.raises(ValueError, match="indices must be a vector of integers"):
            torch._convert_indices_from_coo_to_csr(wrong, size)


@pytest.mark.parametrize("narrow", [False, True])
def test_pointers_of_unsorted_batch_vectors_are_refused(pyg, narrow):
    """They would join clouds: PyG looks at no order, and no search can see it later."""
    x = torch.rand(6, 3, device="mps")
    for rows in ([0, 1, 0, 1, 0, 1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [2, 1, 1, 1, 1, 1]):
        index = torch.tensor(rows, dtype=torch.int32 if narrow else torch.int64, device="mps")
        for size in (max(rows) + 1, 5):
            with mps_emulator.count_readbacks() as reads:
                ptr = torch._convert_indices_from_coo_to_csr(index, size, out_int32=narrow)
            assert reads.count == 0
            assert ptr.dtype == index.dtype
            assert 0 <= int(ptr.cpu().min()) <= int(ptr.cpu().max()) <= 6
            for call in (
                lambda p: pyg.fps(x, p),
                lambda p: pyg.knn(x, x, p, p, 2),
                lambda p: pyg.radius(x, x, p, p, 1.0),
                lambda p: pyg.nearest(x, x, p, p),
                lambda p: pyg.knn(x, x, p, torch.tensor([0, 3, 6], device="mps"), 2),
            ):
                with pytest.raises(ValueError, match=r"ptr.* must be ascending .* sort the points"):
                    call(ptr)
