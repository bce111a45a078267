"""DimeNet++, which needs torch-sparse for its triplets.

torch-sparse has no kernels for MPS, so this part of the model cannot run there; the tests give it
the same triplets in plain torch. The graph they come from is searched on the device.
"""

import torch
from pyg_compare import clouds, same_model
from torch_geometric.nn import DimeNetPlusPlus
from torch_geometric.nn.models import dimenet


def triplets(edge_index, num_nodes):
    """For every edge j -> i all edges k -> j with k other than i."""
    row, col = edge_index
    ji, kj = (row[:, None] == col[None]).nonzero().T
    differ = row[kj] != col[ji]
    ji, kj = ji[differ], kj[differ]
    return col, row, col[ji], row[ji], row[kj], kj, ji


def test_triplets():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2
    _, _, i, j, k, kj, ji = triplets(edges, 3)
    assert list(zip(k.tolist(), j.tolist(), i.tolist(), strict=True)) == [(2, 1, 0), (0, 1, 2)]
    assert torch.equal(edges[:, kj], torch.stack([k, j]))
    assert torch.equal(edges[:, ji], torch.stack([j, i]))


def test_dimenet_and_its_forces(monkeypatch):
    monkeypatch.setattr(dimenet, "triplets", triplets)

    def make():
        return DimeNetPlusPlus(
            hidden_channels=16,
            out_channels=2,
            num_blocks=2,
            int_emb_size=8,
            basis_emb_size=4,
            out_emb_channels=16,
            num_spherical=2,
            num_radial=2,
            cutoff=3.0,
            max_num_neighbors=6,
            output_initializer="glorot_orthogonal",
        )

    pos, batch = clouds((9, 0, 8), seed=6)
    number = torch.arange(len(pos)) % 9 + 1
    energy = same_model(make, number, (pos * 5).requires_grad_(), batch)
    assert energy.shape == (3, 2)
