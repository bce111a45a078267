from __future__ import annotations

import pytest
import torch

REDUCE = """
[[max_total_threads_per_threadgroup(1024)]]
kernel void total(device const float* a, device float* o,
    uint i [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint group [[simdgroup_index_in_threadgroup]], uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float part[32];
  float s = simd_sum(a[i]);
  if (lane == 0) part[group] = s;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) {
    float t = 0;
    for (uint k = 0; k < groups; ++k) t += part[k];
    o[0] = t;
  }
}
"""


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100, 1024])
def test_threadgroup_reduction(compiled, n):
    a, o = torch.arange(float(n)), torch.zeros(1)
    compiled(REDUCE).total(a, o, threads=n, group_size=n)
    assert o.item() == n * (n - 1) / 2


def test_elementwise_with_scalar(compiled):
    lib = compiled(
        "kernel void scale(device float* a, constant float& f, constant long& n,\n"
        "    uint i [[thread_position_in_grid]]) { if (i < uint(n)) a[i] *= f; }"
    )
    a = torch.ones(10)
    lib.scale(a, 2.5, 4)
    assert a.tolist() == [2.5] * 4 + [1.0] * 6
