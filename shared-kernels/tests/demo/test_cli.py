from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import mps_pointops
from mps_pointops.__main__ import main

Run = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("--npoint", "40", "--k", "8", "--max-hits", "8")
OPERATORS = ("furthest_point_sample", "gather", "knn", "ball_query")


def mismatches(output: str) -> dict[str, int]:
    """Last column of every row of the table."""
    rows = (line.split() for line in output.splitlines())
    return {row[0]: int(row[-1]) for row in rows if row and row[0] in OPERATORS}


def test_on_the_cpu(run_demo: Run, cloud_file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    done = run_demo("demo", cloud_file, "--device", "cpu", *SMALL, "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert mismatches(done.stdout) == dict.fromkeys(OPERATORS, 0)
    assert "400 points" in done.stdout
    assert "[1, 40, 8]" in done.stdout
    assert re.search(r"^knn .* \d+\.?\d* m?s .* all 40 queries +0$", done.stdout, re.MULTILINE)
    assert f"mps_pointops {mps_pointops.__version__}" in done.stdout
    assert f"torch {torch.__version__}" in done.stdout
    assert re.search(r"^device +cpu", done.stdout, re.MULTILINE)
    assert "bit for bit" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_emulated(run_demo: Run, cloud_file: Path) -> None:
    done = run_demo("demo", cloud_file, "--emulated", *SMALL)
    assert done.returncode == 0, done.stderr
    assert mismatches(done.stdout) == dict.fromkeys(OPERATORS, 0)
    if sys.platform == "darwin":
        assert "--emulated is ignored" in done.stdout
    else:
        assert re.search(r"^device +mps, emulated in software", done.stdout, re.MULTILINE)
        assert "of the emulation, NOT of a GPU" in done.stdout


@pytest.mark.slow
def test_emulated_on_a_scan(run_demo: Run, tmp_path: Path) -> None:
    dragon = Path(__file__).parents[3] / "integration-tests" / "data" / "dragon.npz"
    picture = tmp_path / "out.png"
    done = run_demo("demo", dragon, "--array", "points_5k", "--emulated", "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert "5205 points (array 'points_5k', float32)" in done.stdout
    assert mismatches(done.stdout) == dict.fromkeys(OPERATORS, 0)
    assert "all 1024 picks" in done.stdout
    assert done.stdout.count("all 1024 queries") == 2
    assert picture.stat().st_size > 50_000


def test_numbers_in_the_table_are_from_the_run(
    cloud_file: Path, cloud: NDArray[np.float32], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", str(cloud_file), "--device", "cpu", *SMALL, "--radius", "0.25"]) == 0
    output = capsys.readouterr().out
    assert "radius 0.25, 8 slots" in output
    assert "radius    0.25 (--radius)" in output


def test_the_default_radius_is_the_median_neighbour(
    cloud_file: Path, cloud: NDArray[np.float32], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", str(cloud_file), "--device", "cpu", *SMALL]) == 0
    shown = re.search(r"^radius +(\S+)", capsys.readouterr().out, re.MULTILINE)
    assert shown is not None
    points = torch.from_numpy(cloud)
    picks = mps_pointops.furthest_point_sample(points[None], 40)[0]
    last = torch.cdist(points[picks].double(), points.double()).sort(dim=1).values[:, 7]
    assert float(shown[1]) == pytest.approx(float(last.median()), rel=0.01)


@pytest.mark.parametrize("points", [1, 2, 7])
def test_sizes_shrink_for_tiny_clouds(
    tmp_path: Path, points: int, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((points, 3)))
    assert main(["demo", str(tmp_path / "a.npy"), "--device", "cpu"]) == 0
    output = capsys.readouterr().out
    assert f"--npoint 1024 is more than the cloud has, {points} is used" in output
    assert f"[1, {points}, {points}]" in output


def test_a_cloud_of_equal_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.ones((50, 3), np.float32))
    out = str(tmp_path / "out.png")
    arguments = ["demo", str(tmp_path / "a.npy"), "--device", "cpu", *SMALL, "--plot", out]
    assert main(arguments) == 0
    assert "0 mismatches: every result" in capsys.readouterr().out


def wrong_index(function: Any) -> Any:
    def wrong(*arguments: Any, **options: Any) -> Any:
        distance, index = function(*arguments, **options)
        index[0, 3, 1] += 1
        return distance, index

    return wrong


def wrong_last_bit(function: Any) -> Any:
    def wrong(*arguments: Any, **options: Any) -> Any:
        distance, index = function(*arguments, **options)
        distance[0, 3, 1] = torch.nextafter(distance[0, 3, 1], torch.tensor(torch.inf))
        return distance, index

    return wrong


def wrong_shape(function: Any) -> Any:
    def wrong(*arguments: Any, **options: Any) -> Any:
        return tuple(tensor[:, :-1] for tensor in function(*arguments, **options))

    return wrong


def wrong_pick(function: Any) -> Any:
    def wrong(*arguments: Any, **options: Any) -> Any:
        picks = function(*arguments, **options)
        picks[0, 5] = 10**6  # no index of this cloud either
        return picks

    return wrong


@pytest.mark.parametrize(
    ("operator", "change", "count"),
    [
        ("knn", wrong_index, 1),
        ("knn", wrong_last_bit, 1),
        ("ball_query", wrong_index, 1),
        ("ball_query", wrong_last_bit, 1),
        ("furthest_point_sample", wrong_pick, 1),
    ],
)
def test_a_wrong_value_is_counted_and_has_no_time(
    monkeypatch: pytest.MonkeyPatch,
    cloud_file: Path,
    capsys: pytest.CaptureFixture[str],
    operator: str,
    change: Any,
    count: int,
) -> None:
    monkeypatch.setattr(mps_pointops, operator, change(getattr(mps_pointops, operator)))
    assert main(["demo", str(cloud_file), "--device", "cpu", *SMALL]) == 1
    output = capsys.readouterr().out
    assert mismatches(output) == {**dict.fromkeys(OPERATORS, 0), operator: count}
    row = next(line for line in output.splitlines() if line.startswith(operator))
    assert not re.search(r"\d m?s\b", row)
    assert f"MISMATCH: {count} values differ from the reference ({operator})" in output


def test_a_wrong_shape_is_a_mismatch(
    monkeypatch: pytest.MonkeyPatch, cloud_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mps_pointops, "ball_query", wrong_shape(mps_pointops.ball_query))
    assert main(["demo", str(cloud_file), "--device", "cpu", *SMALL]) == 1
    assert mismatches(capsys.readouterr().out)["ball_query"] > 0


def test_a_result_that_changes_between_calls_is_a_mismatch(
    monkeypatch: pytest.MonkeyPatch, cloud_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong = mps_pointops.knn, wrong_index(mps_pointops.knn)
    calls: list[None] = []

    def sometimes(*arguments: Any) -> Any:
        calls.append(None)
        return (wrong if len(calls) == 2 else right)(*arguments)

    monkeypatch.setattr(mps_pointops, "knn", sometimes)
    assert main(["demo", str(cloud_file), "--device", "cpu", *SMALL]) == 1
    assert mismatches(capsys.readouterr().out)["knn"] == 1


def test_an_error_is_one_line_on_stderr(run_demo: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"no archive")
    done = run_demo("demo", bad)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"mps_pointops demo: error: {bad}: not a readable .npz file")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npy"], "no such file"),
        (["{cloud}", "--emulated", "--device", "cpu"], "does not go with --device cpu"),
        (["{cloud}", "--plot", "out.jpeg"], "writes a .png file"),
        (["{cloud}", "--plot", "nowhere/out.png"], "no folder nowhere"),
        (["{cloud}", "--array", "x"], "--array names an array of an .npz"),
    ],
)
def test_errors_have_exit_code_2(
    cloud_file: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert main(["demo", *(text.format(cloud=cloud_file) for text in arguments)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


@pytest.mark.parametrize(
    "option", [("--npoint", "0"), ("--k", "x"), ("--radius", "nan"), ("--radius", "-1")]
)
def test_bad_options(cloud_file: Path, option: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", str(cloud_file), *option])
    assert caught.value.code == 2


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "demo" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--help"])
    assert caught.value.code == 0
    assert "--emulated" in capsys.readouterr().out


def test_help_imports_nothing_heavy_of_its_own() -> None:
    code = (
        "import json, sys, mps_pointops\n"
        "before = set(sys.modules)\n"
        "from mps_pointops.__main__ import main\n"
        "try: main(['demo', '--help'])\n"
        "except SystemExit: pass\n"
        "print('\\n' + json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = json.loads(done.stdout.splitlines()[-1])
    assert "mps_pointops.demo.cli" in added
    outside = {name.partition(".")[0] for name in added} & {"matplotlib", "trimesh", "mps_emulator"}
    assert not outside
    assert "mps_pointops.demo.pipeline" not in added
