"""Schemas of the `pyg` operators that PyG 2.8 calls on tensors, and what they mean on the CPU."""

import torch

import mps_pointops  # noqa: F401  (defines torch.ops.mps_pointops)

POINTS = torch.ops.mps_pointops
FMA_XYZ, COSINE, LOWEST_INDEX = 1, 3, 0

# `=` says that the argument has a default.
SCHEMAS = """
fps(Tensor src, Tensor ptr, float ratio=0.5, bool random_start=True) -> Tensor
knn(Tensor x, Tensor y, Tensor? ptr_x=None, Tensor? ptr_y=None, int k=1, bool cosine=False, int num_workers=1) -> Tensor
radius(Tensor x, Tensor y, Tensor? ptr_x=None, Tensor? ptr_y=None, float r=1.0, int max_num_neighbors=32, int num_workers=1, bool ignore_same_index=False) -> Tensor
nearest(Tensor x, Tensor y, Tensor? ptr_x=None, Tensor? ptr_y=None) -> Tensor
grid_cluster(Tensor pos, Tensor size, Tensor? start=None, Tensor? end=None) -> Tensor
graclus_cluster(Tensor rowptr, Tensor col, Tensor? weight=None) -> Tensor
random_walk(Tensor rowptr, Tensor col, Tensor seed, int walk_length, float p, float q) -> Tensor
index_sort(Tensor indices, int? max=None) -> (Tensor, Tensor)
softmax_csr(Tensor src, Tensor ptr, int dim=0) -> Tensor
segment_matmul(Tensor input, Tensor ptr, Tensor other) -> Tensor
grouped_matmul(Tensor[] input, Tensor[] other) -> Tensor[]
"""  # noqa: E501


def padded(ptr_x, ptr_y):
    """PyG makes each from its own batch vector; the last clouds may be missing in one."""
    if ptr_x is None:
        return None, None
    longest = max(len(ptr_x), len(ptr_y))
    return (torch.cat([p, p[-1:].expand(longest - len(p))]) for p in (ptr_x, ptr_y))


def fps(src, ptr, ratio=0.5, random_start=True):
    part = torch.tensor(ratio, dtype=torch.float32)
    return POINTS.flat_fps(src, None, ptr, part, random_start, None, FMA_XYZ, LOWEST_INDEX)


def knn(x, y, ptr_x=None, ptr_y=None, k=1, cosine=False, num_workers=1):
    ptr_x, ptr_y = padded(ptr_x, ptr_y)
    rule = COSINE if cosine else FMA_XYZ
    return POINTS.flat_knn(x, y, None, None, ptr_x, ptr_y, k, None, rule)


def radius(
    x,
    y,
    ptr_x=None,
    ptr_y=None,
    r=1.0,
    max_num_neighbors=32,
    num_workers=1,
    ignore_same_index=False,
):
    ptr_x, ptr_y = padded(ptr_x, ptr_y)
    rest = (r, max_num_neighbors, None, ignore_same_index, FMA_XYZ)
    return POINTS.flat_radius(x, y, None, None, ptr_x, ptr_y, *rest)


def nearest(x, y, ptr_x=None, ptr_y=None):
    ptr_x, ptr_y = padded(ptr_x, ptr_y)
    return POINTS.flat_nearest(x, y, None, None, ptr_x, ptr_y, FMA_XYZ)


def grid_cluster(pos, size, start=None, end=None):
    return POINTS.grid_cluster(pos, size, start, end)


def graclus_cluster(rowptr, col, weight=None):
    return POINTS.graclus_csr(rowptr, col, weight)


def random_walk(rowptr, col, seed, walk_length, p, q):
    assert p == q == 1.0
    return POINTS.random_walk(rowptr, col, seed, walk_length, p, q)[0]


def index_sort(indices, max=None):
    return indices.sort(stable=True)


def softmax_csr(src, ptr, dim=0):
    parts = src.split(ptr.diff().tolist(), dim)
    return torch.cat([part.softmax(dim) for part in parts], dim)


def segment_matmul(input, ptr, other):
    parts = input.split(ptr.diff().tolist())
    return torch.cat([part @ weight for part, weight in zip(parts, other, strict=True)])


def grouped_matmul(input, other):
    return [a @ b for a, b in zip(input, other, strict=True)]


DIFFERENTIABLE = {"softmax_csr", "segment_matmul", "grouped_matmul"}
_libraries = []


def define():
    library = torch.library.Library("pyg", "DEF")
    _libraries.append(library)
    for schema in SCHEMAS.strip().splitlines():
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, globals()[name], "CPU")
        if name in DIFFERENTIABLE:  # autograd goes through the parts
            library.impl(name, torch.library.fallthrough_kernel, "AutogradCPU")
