"""Lanes in different iterations of a loop do not meet; legal loops are left alone."""

from __future__ import annotations

import pytest
import torch

HEAD = """
#define EACH(k, n) for (int k = 0; k < n; ++k)
static int all(int a) { return simd_sum(a); }
static int looped(int a) { int s = 0; EACH(k, 3) s += simd_sum(a); return s; }
static void sync() { threadgroup_barrier(mem_flags::mem_none); }
static int skipping(int a, uint i) {
  int s = 0;
  for (int k = 0; k < 3; ++k) { if (k == 1 && i == 3) continue; s += simd_sum(a); }
  return s;
}
kernel void f(device int* o, constant long& n, uint i [[thread_index_in_threadgroup]]) {
  int s = 0;
"""  # the body begins on line 15
BARRIER = "threadgroup_barrier(mem_flags::mem_none);"


def run(compiled, body):
    o = torch.full((64,), -1, dtype=torch.int32)
    compiled(f"{HEAD}{body}\no[i] = s;\n}}").f(o, 4)
    return o.tolist()


@pytest.mark.parametrize(
    "loop",
    [
        "for (int k = 0; k < n; ++k) {",
        "for (int k = -1; ++k < n;) {",
        "for (int k = 0; k < 4; ++k) {",
        "int k = -1; while (++k < n) {",
        "EACH(k, n) {",
        "for (long j = 0; j < 2; ++j) for (int k = 0; k < n; ++k) {",
    ],
)
@pytest.mark.parametrize("meet", ["simd_sum(k)", "all(k)", "looped(k)", "simd_ballot(k > 1)"])
def test_lane_that_skips_one_iteration(compiled, refused, loop, meet):
    text = f"{loop}\nif (k == 1 && i == 3) continue;\ns += int(ulong({meet}));\n}}\no[i] = s;\n}}"
    lib = compiled(HEAD + text)
    line = {"all(k)": 5, "looped(k)": 6}.get(meet, 17)
    o = torch.zeros(64, dtype=torch.int32)
    message = refused(lib, o, 4, match="divergent simdgroup operation", line=line)
    if "< 4" not in loop:  # that one may be unrolled
        assert "in another call or iteration" in message


def test_do_while(compiled, refused):
    body = "int k = 0; do {\nif (k == 1 && i == 3) continue;\ns += simd_sum(k);\n} while (++k < n);"
    lib = compiled(f"{HEAD}{body}\no[i] = s;\n}}")
    o = torch.zeros(64, dtype=torch.int32)
    refused(lib, o, 4, match="divergent simdgroup operation", line=17)


def test_loop_of_a_helper(compiled, refused):
    lib = compiled(f"{HEAD}s = skipping(1, i);\no[i] = s;\n}}")
    o = torch.zeros(64, dtype=torch.int32)
    refused(lib, o, 4, match="divergent simdgroup operation", line=10)


def test_outer_loop_only(compiled, refused):
    """The inner counts agree; the outer ones do not."""
    body = "if (k == 1 && i == 3) continue;\nEACH(j, n)\ns += simd_sum(j);"
    lib = compiled(f"{HEAD}for (int k = 0; k < n; ++k) {{\n{body}\n}}\no[i] = s;\n}}")
    refused(lib, torch.zeros(64, dtype=torch.int32), 4, match="divergent simdgroup", line=18)


@pytest.mark.parametrize(("meet", "line"), [(BARRIER, 17), ("sync();", 7)])
def test_barrier(compiled, refused, meet, line):
    body = f"for (int k = 0; k < n; ++k) {{\nif (k == (i < 32 ? 1 : 2)) continue;\n{meet}\n}}"
    lib = compiled(f"{HEAD}{body}\no[i] = s;\n}}")
    o = torch.zeros(64, dtype=torch.int32)
    refused(lib, o, 4, match="divergent barrier: .* in another call or iteration", line=line)


LEGAL = [
    # uniform continue and break
    ("EACH(k, n) { if (k == 1) continue; s += simd_sum(1); }", 96),
    ("EACH(k, n) { if (k == 2) break; s += simd_sum(1); }", 64),
    # other trip counts in every lane, lanes together again behind the loop
    ("for (uint k = 0; k < i; ++k) { if (k == 5) break; s += 1; } s = simd_max(s);", 5),
    # loops in loops, without braces, an else behind them, macros, helpers
    ("EACH(k, n) EACH(j, k + 1) s += simd_sum(1);", 320),
    ("if (n == 4) EACH(k, n) if (k) s += simd_sum(1); else s -= all(2); else s = 7;", 32),
    ("if (n != 4) EACH(k, n) s += simd_sum(1); else s = 7;", 7),
    ("EACH(k, n) if (k & 1) EACH(j, 2) s += all(1); else { EACH(j, 3) sync(); }", 128),
    ("int k = 0; do s += simd_sum(1); while (++k < n);", 128),
    ("int k = 0; do { s += simd_sum(1); if (k == 2) break; } while (++k < n);", 96),
    ("int k = 0; do do s += simd_sum(1); while (++k < 2); while (k < n);", 128),
    ("int k = 0; do if (k) s += all(1); else sync(); while (++k < n);", 96),
    ("EACH(k, n) s += looped(1);", 384),
    ("for (;;) { s += simd_sum(1); if (s > 99) break; }", 128),
    ("for (int k = 0, j = 9; k < j; ++k, --j) s += simd_sum(1);", 160),
    ("int k = 0; while (simd_any(k < int(n))) { ++k; } s = k;", 4),
    ("for (int k = simd_sum(1); k > simd_sum(0); k -= simd_max(8)) s += 1;", 4),
    ("switch (n) { case 4: EACH(k, 2) s += simd_sum(1); break; default: sync(); }", 64),
    # simdgroups in different iterations meet nobody
    ("for (uint k = 0; k <= i / 32; ++k) s += simd_sum(1); s = simd_max(s) > 31;", 1),
    # lanes that have returned
    ("for (uint k = 0; ; ++k) { if (k == i) { o[i] = 9; return; } s += simd_sum(1); }", 9),
    ("auto one = [&](int a) { return simd_sum(a); }; EACH(k, n) s += one(1);", 128),
    ("int a[3] = {1, 2, 3}; for (int v : a) s += simd_sum(v);", 192),
    ("\n#pragma unroll\nEACH(k, 4) { s += simd_sum(1); }", 128),
    ('\n_Pragma("clang loop unroll(full)") EACH(k, 4) { s += simd_sum(1); }', 128),
]


@pytest.mark.parametrize(("body", "expected"), LEGAL)
def test_legal_loops(compiled, body, expected):
    assert set(run(compiled, body)) == {expected}
