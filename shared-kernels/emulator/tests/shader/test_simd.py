"""Simdgroup functions, barriers, and the built-ins of the grid."""

from __future__ import annotations

import functools
import itertools
import operator

import pytest
import torch

LANES = [1, 7, 31, 32]


def lanes(compiled, expression, n, kind="int", before=""):
    """Runs one expression of ``i`` in ``n`` lanes and returns what each lane got."""
    dtype = {"int": torch.int32, "uint": torch.int32, "float": torch.float32, "long": torch.int64}
    lib = compiled(
        f"{before}\nkernel void f(device {kind}* o, uint i [[thread_index_in_simdgroup]]) {{\n"
        f"  o[i] = {expression};\n}}"
    )
    o = torch.zeros(n, dtype=dtype[kind])
    lib.f(o, threads=n, group_size=n)
    return o.tolist()


@pytest.mark.parametrize("n", LANES)
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("simd_sum(int(i) + 1)", lambda v: [sum(v)] * len(v)),
        ("simd_max(int(i) + 1)", lambda v: [max(v)] * len(v)),
        ("simd_min(int(i) + 1)", lambda v: [1] * len(v)),
        ("simd_product(i == 0 ? 3 : 1)", lambda v: [3] * len(v)),
        ("simd_or(1 << (i % 4))", lambda v: [(1 << min(len(v), 4)) - 1] * len(v)),
        ("simd_and(int(i) | 64)", lambda v: [64] * len(v)),
        ("simd_xor(int(i))", lambda v: [functools.reduce(operator.xor, range(len(v)))] * len(v)),
        ("simd_prefix_inclusive_sum(int(i) + 1)", lambda v: list(itertools.accumulate(v))),
        ("simd_prefix_exclusive_sum(int(i) + 1)", lambda v: [0, *itertools.accumulate(v)][:-1]),
        ("simd_prefix_inclusive_product(i < 5 ? 2 : 1)", lambda v: [2 ** min(x, 5) for x in v]),
        ("simd_prefix_exclusive_product(i < 5 ? 2 : 1)", lambda v: [2 ** min(x - 1, 5) for x in v]),
        ("simd_broadcast(int(i) + 1, 0)", lambda v: [1] * len(v)),
        ("simd_broadcast_first(int(i) + 1)", lambda v: [1] * len(v)),
        ("simd_any(i == 0)", lambda v: [1] * len(v)),
        ("simd_all(i == 0)", lambda v: [int(len(v) == 1)] * len(v)),
        ("simd_is_first()", lambda v: [1] + [0] * (len(v) - 1)),
        ("simd_shuffle(int(i), 0)", lambda v: [0] * len(v)),
    ],
)  # fmt: skip
def test_over_active_lanes(compiled, n, expression, expected):
    assert lanes(compiled, expression, n) == expected(range(1, n + 1))


@pytest.mark.parametrize("n", LANES)
def test_votes(compiled, n):
    odd = sum(1 << i for i in range(n) if i % 2)
    assert lanes(compiled, "long(ulong(simd_ballot(i % 2 == 1)))", n, "long") == [odd] * n
    full = (1 << n) - 1
    assert lanes(compiled, "long(ulong(simd_active_threads_mask()))", n, "long") == [full] * n
    assert lanes(compiled, "simd_vote(0xffffffff).all() + simd_ballot(true).any()", n) == [2] * n


def test_vote_needs_an_explicit_cast(compiled):
    with pytest.raises(SyntaxError, match="simd_vote"):
        lanes(compiled, "ctz(simd_ballot(true))", 32)


def test_shuffles(compiled):
    def get(expression):
        return lanes(compiled, expression, 32)

    r = range(32)
    assert get("simd_shuffle(int(i), ushort(31 - i))") == [31 - i for i in r]
    assert get("simd_shuffle_xor(int(i), 5)") == [i ^ 5 for i in r]
    assert get("simd_shuffle_up(int(i), 3)") == [i - 3 if i >= 3 else i for i in r]
    assert get("simd_shuffle_down(int(i), 3)") == [i + 3 if i < 29 else i for i in r]
    assert get("simd_shuffle_rotate_up(int(i), 3)") == [(i - 3) % 32 for i in r]
    assert get("simd_shuffle_rotate_down(int(i), 3)") == [(i + 3) % 32 for i in r]
    fill_up = "simd_shuffle_and_fill_up(int(i), 100 + int(i), 3)"
    assert get(fill_up) == [i - 3 if i >= 3 else 100 + 29 + i for i in r]
    fill_down = "simd_shuffle_and_fill_down(int(i), 100 + int(i), 3)"
    assert get(fill_down) == [i + 3 if i < 29 else 100 + i - 29 for i in r]
    modulo = "simd_shuffle_and_fill_up(int(i), 100 + int(i), 1, 8)"
    assert get(modulo) == [i - 1 if i % 8 else 100 + i + 7 for i in r]


def test_values_of_other_types(compiled):
    assert lanes(compiled, "simd_max(float(i) * 0.5f)", 32, "float") == [15.5] * 32
    assert lanes(compiled, "simd_sum(float3(1, i, 2)).y", 32, "float") == [496] * 32
    assert lanes(compiled, "simd_shuffle(float4(i), 3).w", 32, "float") == [3] * 32
    assert lanes(compiled, "float(simd_sum(half(1)))", 32, "float") == [32] * 32
    assert lanes(compiled, "simd_max(ushort(i))", 32) == [31] * 32
    assert lanes(compiled, "simd_min(char(-int(i)))", 32) == [-31] * 32
    expression = "as_type<long>(simd_shuffle_xor(as_type<int2>(long(i) << 33), 1))"
    assert lanes(compiled, expression, 32, "long") == [(i ^ 1) << 33 for i in range(32)]


def test_nan_is_dropped(compiled):
    assert lanes(compiled, "simd_max(i == 3 ? NAN : float(i))", 32, "float") == [31] * 32
    assert lanes(compiled, "simd_min(i == 0 ? NAN : float(i))", 32, "float") == [1] * 32


@pytest.mark.parametrize("name", ["simd_sum", "simd_max", "simd_broadcast_first", "simd_shuffle"])
@pytest.mark.parametrize("value", ["true", "1l", "1ul", "i == 0"])
def test_types_without_simd_functions(compiled, name, value):
    argument = ", 0" if name == "simd_shuffle" else ""
    with pytest.raises(SyntaxError, match=f"no matching function for call to '{name}'"):
        lanes(compiled, f"{name}({value}{argument})", 32)


def test_bitwise_reduction_of_float(compiled):
    with pytest.raises(SyntaxError, match="no matching function"):
        lanes(compiled, "simd_and(1.0f)", 32)


def test_lane_that_has_ended_is_inactive(compiled):
    lib = compiled("""
kernel void f(device int* o, uint i [[thread_index_in_simdgroup]]) {
  if (i >= 10) return;
  o[i] = simd_sum(1);
}
""")
    o = torch.zeros(32, dtype=torch.int32)
    lib.f(o)
    assert o.tolist() == [10] * 10 + [0] * 22


def test_loop_with_lanes_that_leave_it(compiled):
    lib = compiled("""
kernel void f(device int* o, uint i [[thread_index_in_simdgroup]]) {
  int steps = 0;
  for (;;) {
    bool more = steps < int(i);
    if (!simd_any(more)) break;
    if (more) ++steps;
  }
  o[i] = steps;
}
""")
    o = torch.zeros(32, dtype=torch.int32)
    lib.f(o)
    assert o.tolist() == list(range(32))


def test_built_ins(compiled):
    lib = compiled("""
kernel void f(device uint* o,
    uint3 grid_at [[thread_position_in_grid]], uint3 grid [[threads_per_grid]],
    uint3 at [[thread_position_in_threadgroup]], uint3 size [[threads_per_threadgroup]],
    uint3 asked [[dispatch_threads_per_threadgroup]],
    uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
    uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]],
    ushort width [[threads_per_simdgroup]]) {
  device uint* r = o + ((grid_at.z * grid.y + grid_at.y) * grid.x + grid_at.x) * 26;
  uint3 all[7] = {grid_at, grid, at, size, asked, group, groups};
  for (uint k = 0; k < 21; ++k) r[k] = all[k / 3][k % 3];
  r[21] = index; r[22] = lane; r[23] = simd; r[24] = simds; r[25] = width;
}
""")
    grid, asked = (7, 5, 3), (4, 3, 2)
    o = torch.zeros(grid[2], grid[1], grid[0], 26, dtype=torch.int32)
    lib.f(o, threads=grid, group_size=asked)
    groups = tuple(-(-g // s) for g, s in zip(grid, asked, strict=True))
    for z, y, x in itertools.product(range(grid[2]), range(grid[1]), range(grid[0])):
        p = (x, y, z)
        group = tuple(a // s for a, s in zip(p, asked, strict=True))
        at = tuple(a % s for a, s in zip(p, asked, strict=True))
        size = tuple(min(s, g - b * s) for s, g, b in zip(asked, grid, group, strict=True))
        index = (at[2] * size[1] + at[1]) * size[0] + at[0]
        count = size[0] * size[1] * size[2]
        expected = [*p, *grid, *at, *size, *asked, *group, *groups]
        expected += [index, index % 32, index // 32, -(-count // 32), 32]
        assert o[z, y, x].tolist() == expected


@pytest.mark.parametrize("kind", ["uint", "ushort", "uint2", "ushort3"])
def test_types_of_built_ins(compiled, kind):
    part = ".y" if kind[-1].isdigit() else ""
    lib = compiled(
        f"kernel void f(device int* o, {kind} p [[thread_position_in_grid]], "
        f"{kind} s [[threads_per_threadgroup]]) {{ o[0] = p{part} + s{part}; }}"
    )
    o = torch.zeros(1, dtype=torch.int32)
    lib.f(o, threads=(1, 1), group_size=(1, 1))
    assert o.item() == 1


@pytest.mark.parametrize("size", [1, 33, 1000])
def test_ragged_last_group(compiled, size):
    lib = compiled("""
[[max_total_threads_per_threadgroup(1000)]]
kernel void f(device int* o, uint i [[thread_position_in_grid]],
    uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup int seen[1024];
  seen[t] = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  int s = 0;
  for (uint k = 0; k < n; ++k) s += seen[k];
  o[i] = s;
}
""")
    o = torch.zeros(2500, dtype=torch.int32)
    lib.f(o, group_size=size)
    whole = 2500 // size * size
    assert o.tolist() == [size] * whole + [2500 - whole] * (2500 - whole)


def test_barrier_flags_combine(values):
    body = """
threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
simdgroup_barrier(mem_flags::mem_none);
o[0] = 1;
"""
    assert values(body) == [1]
