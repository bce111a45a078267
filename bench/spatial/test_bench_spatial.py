"""The scripts of this folder that `bench/all.py` does not run."""

import runpy
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_builds_are_equal_and_timed(monkeypatch, capsys):
    script = HERE / "bench_build.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--emulated", "--quick", "--repeats", "1"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(script), run_name="__main__")
    assert end.value.code == 0
    assert "sphere clouds=1, points=600" in capsys.readouterr().out


def test_leaves_are_counted(monkeypatch, capsys):
    script = HERE / "leaves.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--emulated", "--points", "1500"])
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    cube = next(line.split() for line in lines if line.startswith("cube"))
    assert 1 <= float(cube[1]) < 47  # of 47 leaves
