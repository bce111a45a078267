"""Repeated launches: prepared once, the same bytes as a first one. No card is needed."""

import ctypes
import struct

import pytest
import torch

from mps_emulator.cuda import _driver, _library, _nvrtc
from mps_emulator.cuda._form import Form, look_at

pytestmark = pytest.mark.skipif(not _nvrtc.is_available(), reason="needs a PyTorch with CUDA")
TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void f(constant long* n [[buffer(1)]], constant float& s [[buffer(0)]],
              constant float* v [[buffer(2)]], uint i [[thread_position_in_grid]]) {}
"""


class Recorder:
    """A binary whose entry points note what a launch would pass."""

    shared_bytes = 0

    def __init__(self, binary=b""):
        self.launches = []

    def function(self, name):
        return self

    def launch(self, sizes, parameters):
        read = [ctypes.string_at(parameters[p], size) for p, size in ((1, 16), (2, 4), (3, 12))]
        grid = struct.unpack("3I", ctypes.string_at(parameters[0], 12))
        numbers = [s if isinstance(s, int) else s.value for s in sizes]
        self.launches.append((numbers, grid, *read))


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setattr(_driver, "architecture", lambda: "sm_90")
    monkeypatch.setattr(_driver, "Module", Recorder)
    return _library.compile_shader(TEXT)


def launches(library, *, whole=True):
    return library.module(whole=whole, by_value=True).launches


def test_a_second_call_sends_its_own_numbers(library, monkeypatch):
    kernel = library.f
    kernel(0.5, [1, 2], [1.0, 2.0, 3.0], threads=64, group_size=32)
    checks = []
    monkeypatch.setattr(_library, "bind", lambda *a, **k: checks.append(a))
    kernel(-0.5, [-3, 2**62], [0.25, 7, -1e-3], threads=64, group_size=32)
    assert not checks
    first, second = launches(library)
    assert first[0] == second[0] == [2, 1, 1, 32, 1, 1]
    assert first[1] == second[1] == (64, 1, 1)
    assert second[2:] == (
        struct.pack("2q", -3, 2**62),
        struct.pack("f", -0.5),
        struct.pack("3f", 0.25, 7, -1e-3),
    )


def test_a_number_beyond_float_becomes_infinite_as_in_a_first_call(library):
    kernel = library.f
    for value in (1.0, 1e39):
        kernel(value, [1, 2], [1.0, 2.0, 3.0], threads=32, group_size=32)
    assert [launch[3] for launch in launches(library)] == [
        struct.pack("f", 1.0),
        struct.pack("f", float("inf")),
    ]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((0.5, [1, 2.5], [1.0, 2.0, 3.0]), TypeError, "a list of int, but it holds 2.5"),
        ((0.5, [1, 2**63], [1.0, 2.0, 3.0]), RuntimeError, "does not fit in 64 bits"),
        ((1, [1, 2], [1.0, 2.0, 3.0]), RuntimeError, "the parameter expects"),
        ((0.5, [1, 2], [1, 2, 3]), RuntimeError, "the parameter expects float"),
        ((0.5, [1, 2]), RuntimeError, "takes 3 buffer arguments"),
        ((0.5, [], [1.0]), RuntimeError, "empty list"),
    ],
)
def test_wrong_calls_are_refused_after_right_ones_too(library, arguments, kind, words):
    kernel = library.f
    for _ in range(2):
        kernel(0.5, [1, 2], [1.0, 2.0, 3.0], threads=32, group_size=32)
    with pytest.raises(kind, match=words):
        kernel(*arguments, threads=32, group_size=32)
    assert len(launches(library)) == 2


def test_another_grid_is_another_form(library):
    kernel = library.f
    for threads in (32, 64, 40, 32, 64, 40):
        kernel(0.5, [1, 2], [1.0, 2.0, 3.0], threads=threads, group_size=32)
    assert [launch[1][0] for launch in launches(library)] == [32, 64, 32, 64]
    assert [launch[1][0] for launch in launches(library, whole=False)] == [40, 40]
    with pytest.raises(RuntimeError, match="each must be from 1"):
        kernel(0.5, [1, 2], [1.0, 2.0, 3.0], threads=0, group_size=32)


def test_few_forms_are_kept(library, monkeypatch):
    monkeypatch.setattr(_library, "_MOST_FORMS", 3)
    kernel = library.f
    for groups in range(1, 9):
        kernel(0.5, [1, 2], [1.0, 2.0, 3.0], threads=32 * groups, group_size=32)
        assert len(kernel._prepared) <= 3


def test_what_a_look_tells_apart():
    def look(*args, threads=32, group_size=None):
        return look_at(args, threads, group_size)[0]

    assert look(1, 2.0, [3, 4]) == look(5, 6.0, [7, 8])
    assert look(1) != look(1.0)
    assert look(1) != look([1])
    assert look([1]) != look([1, 2])
    assert look([1]) != look([1.0])
    assert look(True) != look(1)
    assert look(1, threads=(32, 1)) == look(1, threads=[32, 1]) != look(1)
    assert look(1, group_size=32) != look(1)
    assert look(torch.zeros(3)) is None, "tensors of the CPU are checked each time"


def test_addresses_lie_in_the_order_of_the_entry_point():
    recorder = Recorder()
    look = (32, 32, torch.float32, 0, int, 2, torch.int64, 8)
    form = Form(recorder, look, [1, 0, 2], 64, (32, 1, 1), (1, 1, 1), (32, 1, 1))
    assert form.launch([0x1000, 5, 6, 0x2008])
    _, _, numbers, first, second = recorder.launches[0]
    assert numbers == struct.pack("2q", 5, 6)
    assert first == struct.pack("Q", 0x1000)[:4]
    assert second[:8] == struct.pack("Q", 0x2008)
