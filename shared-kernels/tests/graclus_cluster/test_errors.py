"""Bad arguments of Graclus clusters: what is refused, and what does no harm."""

import pytest
import torch

from mps_pointops.ops.graclus_cluster import graclus_cluster

CSR = torch.ops.mps_pointops.graclus_csr
ROW = torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"row": [0, 1, 2]}, TypeError, "row must be a torch.Tensor, got list"),
        ({"weight": 1.0}, TypeError, "weight must be a torch.Tensor, got float"),
        ({"row": ROW.float()}, TypeError, "row must be int64 or int32, got torch.float32"),
        ({"col": ROW.short()}, TypeError, "col must be int64 or int32, got torch.int16"),
        ({"row": ROW[None]}, ValueError, r"row must be a tensor of 1 axis, got shape \[1, 3\]"),
        ({"col": ROW[:2]}, ValueError, r"col must be of shape \[3\], as row, got shape \[2\]"),
        ({"weight": torch.ones(2)}, ValueError, r"weight must be of shape \[3\], one weight"),
        ({"weight": torch.ones(3, 1)}, ValueError, r"weight must be .*, got shape \[3, 1\]"),
        ({"weight": torch.ones(3).bool()}, TypeError, "weight must be a float .*float()"),
        ({"weight": torch.ones(3).cfloat()}, TypeError, "got torch.complex64$"),
        ({"num_nodes": -1}, ValueError, "num_nodes must be at least 0, got -1"),
        ({"num_nodes": 3.5}, TypeError, "num_nodes must be an integer"),
        ({"num_nodes": 2**31}, ValueError, "num_nodes must be at most"),
        ({"row": ROW - 1}, IndexError, "row must be at least 0 and below 2147483647, got -1"),
        ({"col": ROW - 5}, IndexError, "col must be at least 0 and below 2147483647, got -5"),
        (
            {"col": ROW + 2**40},
            IndexError,
            "col must be at least 0 and below 2147483647, got 1099511627778",
        ),
    ],
)
def test_bad_arguments(device, arguments, error, text):
    good = {"row": ROW, "col": ROW.flip(0)}
    moved = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in {**good, **arguments}.items()
    }
    with pytest.raises(error, match=f"^graclus_cluster: .*{text}"):
        graclus_cluster(**moved)


def test_two_devices():
    other = ROW.to("mps")
    for arguments in ((ROW, other), (other, ROW), (other, other, torch.ones(3))):
        with pytest.raises(ValueError, match=r"must be on the device of row"):
            graclus_cluster(*arguments)


def test_indices_out_of_range(device, monkeypatch):
    row, col = torch.tensor([[0, 3, 1], [5, 1, 2]], device=device)
    if device == "mps":  # not looked at: such an edge never matches
        weight = torch.tensor([3, 2, 1], device=device)
        assert graclus_cluster(row, col, weight, 5).tolist() == [0, 1, 2, 1, 4]
        assert graclus_cluster(row, col - 2, weight, 4).tolist() == [0, 1, 2, 0]
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    with pytest.raises(IndexError, match="col must be at least 0 and below 5, got 5"):
        graclus_cluster(row, col, None, 5)
    with pytest.raises(IndexError, match="row must be at least 0 and below 3, got 3"):
        graclus_cluster(row, col, None, 3)
    with pytest.raises(IndexError, match="row must be at least 0 and below 0, got 0"):
        graclus_cluster(row[:1], col[:1], None, 0)


def test_bad_compressed_rows(device, monkeypatch):
    col = torch.tensor([1, 0, 2], device=device)
    bad = ([1, 2, 3, 3], [0, 2, 1, 3], [0, 1, 2, 2], [0, 4, 4, 3], [-3, -2, 9, 3], [0])
    if device == "mps":  # not looked at: no harm
        for rowptr in bad:
            got = CSR(torch.tensor(rowptr, device=device), col, None)
            assert got.shape == (len(rowptr) - 1,)
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    for rowptr in bad:
        with pytest.raises(ValueError, match=r"^graclus_csr: rowptr must be ascending from 0 to 3"):
            CSR(torch.tensor(rowptr, device=device), col, None)
    with pytest.raises(
        IndexError, match=r"^graclus_csr: col must be at least 0 and below 2, got 2"
    ):
        CSR(torch.tensor([0, 1, 3], device=device), col, None)
    with pytest.raises(ValueError, match=r"rowptr must be of shape \[N \+ 1\]"):
        CSR(col[:0], col[:0], None)
    with pytest.raises(TypeError, match="rowptr must be int64 or int32"):
        CSR(col.float(), col, None)
