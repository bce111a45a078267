"""The functions that PyG 2.8 looks for: thin calls of the operators."""

import torch

PYG = torch.ops.pyg


def fps(src, ptr, ratio=0.5, random_start=True):
    return PYG.fps(src, ptr, ratio, random_start)


def knn(x, y, k=1, ptr_x=None, ptr_y=None, cosine=False, num_workers=1):
    return PYG.knn(x, y, ptr_x, ptr_y, k, cosine, num_workers)


def radius(
    x,
    y,
    r=1.0,
    ptr_x=None,
    ptr_y=None,
    max_num_neighbors=32,
    num_workers=1,
    ignore_same_index=False,
):
    return PYG.radius(x, y, ptr_x, ptr_y, r, max_num_neighbors, num_workers, ignore_same_index)


def nearest(x, y, ptr_x=None, ptr_y=None):
    return PYG.nearest(x, y, ptr_x, ptr_y)


def grid_cluster(pos, size, start=None, end=None):
    return PYG.grid_cluster(pos, size, start, end)


def graclus_cluster(rowptr, col, weight=None):
    return PYG.graclus_cluster(rowptr, col, weight)


def index_sort(inputs, max_value=None):
    if inputs.device.type != "cpu":
        return torch.sort(inputs)
    return PYG.index_sort(inputs, max_value)


def softmax_csr(src, ptr, dim=0):
    return PYG.softmax_csr(src, ptr, dim)


def segment_matmul(inputs, ptr, other, bias=None):
    out = PYG.segment_matmul(inputs, ptr, other)
    if bias is not None:
        kinds = torch.arange(len(bias), device=ptr.device).repeat_interleave(ptr.diff())
        out = out + bias[kinds]
    return out


def grouped_matmul(inputs, others, biases=None):
    outs = PYG.grouped_matmul(list(inputs), list(others))
    if biases is not None:
        outs = [out + bias for out, bias in zip(outs, biases, strict=True)]
    return list(outs)
