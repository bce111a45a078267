"""Compiling and launching: once per source and options, checked, early out."""

import threading
import time

import pytest
import torch

from mps_pointops._metal import Source, blocks, launch
from mps_pointops._metal import compile as compiling


@pytest.fixture
def source(monkeypatch):
    """A source of its own, that variants() does not see afterwards."""
    monkeypatch.setattr(compiling, "_sources", [])
    return Source("mps_pointops.ops.fps", "fps", {"RULE": (0,), "DIM": (3,), "TIES": (0,)})


class _Kernel:
    thread_execution_width = 32


class _Library:
    fps = _Kernel()


def test_a_library_is_compiled_once_by_many_threads(source, monkeypatch):
    compiled = []

    def compile_shader(text):
        time.sleep(0.05)
        compiled.append(text)
        return _Library()

    monkeypatch.setattr(torch.mps, "compile_shader", compile_shader)
    threads = [threading.Thread(target=source.kernel, args=(0, 3, 0)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    head = "#include <metal_stdlib>\n#define RULE 0\n#define DIM 3\n#define TIES 0\n"
    assert compiled[0].startswith(head)  # options are not seen by Metal's own headers
    source.kernel(1, 3, 0)
    assert len(compiled) == 2


def test_another_simdgroup_width_is_refused(source, monkeypatch):
    class Wide(_Kernel):
        thread_execution_width = 64

    library = _Library()
    library.fps = Wide()
    monkeypatch.setattr(torch.mps, "compile_shader", lambda text: library)
    with pytest.raises(RuntimeError, match="simdgroups of 32 threads, this GPU has 64"):
        source.kernel(0, 3, 0)


def test_a_failed_compilation_is_tried_again(source, monkeypatch):
    def broken(text):
        raise SyntaxError("error: no")

    monkeypatch.setattr(torch.mps, "compile_shader", broken)
    with pytest.raises(SyntaxError):
        source.kernel(0, 3, 0)
    monkeypatch.setattr(torch.mps, "compile_shader", lambda text: _Library())
    assert source.kernel(0, 3, 0) is _Library.fps


def test_one_value_for_every_option(source):
    with pytest.raises(ValueError, match=r"shorter|longer"):
        source.text(0, 3)


def test_nothing_is_launched_for_empty_work():
    def kernel(*arguments, **grid):
        raise AssertionError("launched")

    launch(kernel, groups=0, group_size=32)
    with pytest.raises(AssertionError, match="launched"):
        launch(kernel, groups=1, group_size=32)


@pytest.mark.parametrize(
    ("count", "each", "limit", "unit", "wanted"),
    [
        (0, 5, 10, 1, []),
        (7, 5, 10, 1, [(0, 2), (2, 4), (4, 6), (6, 7)]),
        (7, 100, 10, 1, [(i, i + 1) for i in range(7)]),
        (20, 1, 100, 8, [(0, 20)]),
        (20, 1, 9, 8, [(0, 8), (8, 16), (16, 20)]),
        (5, 0, 10, 1, [(0, 5)]),
    ],
)
def test_long_work_is_cut(count, each, limit, unit, wanted):
    assert list(blocks(count, each, limit, unit)) == wanted


def test_the_device_is_waited_for_between_parts(monkeypatch):
    """A command buffer of all parts together would run for too long."""
    waits = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waits.append(len(seen)))
    seen = []
    for part in blocks(7, 5, 10):
        seen.append(part)  # what was launched before the wait
    assert waits == [1, 2, 3]
    waits.clear()
    assert list(blocks(7, 5, 10, wait=False)) == seen
    assert waits == []


def test_out_of_bounds_is_caught():
    """Guarded buffers: a kernel told of one point too many is stopped, not obeyed."""
    import mps_emulator

    if not mps_emulator.is_installed():
        pytest.skip("a real GPU does not check")
    from mps_pointops.ops.ball_query.mps import SOURCE

    query = torch.zeros(1, 3, device="mps")
    ref = torch.full((64, 3), 9.0, device="mps")
    distance = torch.empty(1, 4, device="mps")
    index = torch.empty(1, 4, dtype=torch.int64, device="mps")
    for size, message in ((64, None), (65, "out.of.bounds")):
        shape = [3, 1, 1, size, 0, 4, 0, 1]
        arguments = (query, ref, index, index, distance, index, shape, [1.0, 1.0])
        if message is None:
            SOURCE.kernel(1, 3, 0)(*arguments, threads=256, group_size=256)
        else:
            with pytest.raises(RuntimeError, match=message):
                SOURCE.kernel(1, 3, 0)(*arguments, threads=256, group_size=256)
