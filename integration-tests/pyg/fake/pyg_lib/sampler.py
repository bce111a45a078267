"""What PyG 2.8 looks for at import; sampling of neighbours is not part of these tests."""

import torch


def random_walk(rowptr, col, seed, walk_length, p=1.0, q=1.0):
    return torch.ops.pyg.random_walk(rowptr, col, seed, walk_length, p, q)


def neighbor_sample(rowptr, colptr, seed, edge_time=None, edge_weight=None):
    raise NotImplementedError("the tests' pyg_lib has no neighbour sampling")
