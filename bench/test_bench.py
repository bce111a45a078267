"""The benchmark scripts run, check before they time, and fail on a wrong result."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import goals
import report
from all import OPS
from figure import dots
from harness import Row, read

HERE = Path(__file__).parent


def _run(script, *arguments):
    """A process of its own, for the emulated device."""
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Runs a script in this process; gives what it ended with and what it printed."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(script), run_name="__main__")
        return end.value.code, capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """Output and rows of the quick cases of every operator, with the Metal kernels in software."""
    output = tmp_path_factory.mktemp("bench") / "rows.jsonl"
    done = _run(HERE / "all.py", "--quick", "--emulated", "--repeats", "1", "--output", str(output))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, read(output)


def test_every_operator_has_checked_and_timed_rows(emulated):
    output, rows = emulated
    assert {row.op for row in rows} == set(OPS)
    for row in rows:
        assert row.case in output
        assert row.checked > 0
        assert row.mismatches == 0 or row.provider == "torch", row.case
        assert row.wall_time[1] > 0
        assert row.host_time > 0
        assert {"mps_pointops", "torch", "commit"} <= row.versions.keys()


def test_baselines_are_compared_too(emulated):
    _, rows = emulated
    found = {(row.op, row.provider) for row in rows}
    assert {(op, "seed") for op in ("fps", "knn", "ball_query", "three_nn")} <= found
    assert {(op, "torch") for op in ("fps", "knn", "ball_query", "nearest")} <= found
    assert ("ball_query", "seed, simdgroup") in found


def test_emulated_times_say_so(emulated):
    output, rows = emulated
    assert all("not of a GPU" in row.device or "Apple" in row.device for row in rows)
    assert "not measured." in output


def test_cpu_tensors(tmp_path, run_here):
    output = tmp_path / "rows.jsonl"
    chosen = ("--quick", "--device", "cpu", "--providers", "ours", "--only", "points=1000")
    code, _ = run_here(HERE / "fps" / "bench_fps.py", *chosen, "--output", output)
    assert code == 0
    (row,) = read(output)
    assert (row.op, row.provider, row.mismatches) == ("fps", "ours", 0)
    assert row.sizes == {"clouds": 1, "points": 1000, "picks": 128}
    assert row.repeats > 1


@pytest.mark.parametrize(("script", "op"), [("search", "cpu_search"), ("fps", "cpu_fps")])
def test_the_cpu_path_beside_others(script, op, tmp_path, run_here):
    output = tmp_path / "rows.jsonl"
    chosen = ("--quick", "--device", "cpu", "--repeats", "1", "--only", "sphere,sums")
    code, printed = run_here(HERE / "cpu" / f"bench_{script}.py", *chosen, "--output", output)
    assert code == 0, printed
    assert len(re.findall("^case +provider", printed, re.MULTILINE)) == 1  # one heading
    rows = [row for row in read(output) if row.provider.startswith("ours")]
    assert {row.op for row in rows} == {op}
    assert {row.sizes["threads"] for row in rows} == {1, 2}
    for row in rows:
        assert row.mismatches == 0 < row.checked
        assert row.host_time > 0


WRONG = """
import torch
from harness import Bench, Provider

bench = Bench("wrong")
bench.row("one off", lambda: torch.tensor([1, 2]), lambda: torch.tensor([1, 3]))
bench.row("shape", lambda: torch.zeros(3), lambda: torch.zeros(2))
bench.row("raises", lambda: torch.zeros(3) + torch.zeros(2), lambda: torch.zeros(2))
near = Provider(lambda: torch.tensor([2]), inexact=True)
bench.case("near", {}, {"other": near}, lambda: torch.tensor([3]))
bench.end()
"""


def test_a_wrong_result_has_no_time(tmp_path, run_here):
    script, output = tmp_path / "bench_wrong.py", tmp_path / "rows.jsonl"
    script.write_text(WRONG)
    code, printed = run_here(script, "--device", "cpu", "--output", output)
    assert code == 1
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["mismatches"] for row in rows] == [1, 2, 1]
    assert [row["wall_time"] is None for row in rows] == [True, True, False]
    assert "failed: RuntimeError" in printed


def test_files_of_results_keep_the_last_row_of_a_case(tmp_path):
    path = tmp_path / "new folder" / "rows.jsonl"
    for value in (1.0, 2.0):
        Row("fps", "sphere", {"points": 5}, "ours", "card", (value,) * 3).append_to(path)
    Row("fps", "sphere", {"points": 5}, "seed", "card", None, (7.0, 8.0, 9.0)).append_to(path)
    Row("fps", "sphere", {"points": 5}, "ours", "card", evaluations=99).append_to(path)
    ours, seed = read(path)
    assert (ours.time, seed.time) == (2.0, 8.0)
    assert (ours.evaluations, seed.evaluations) == (99, None), "counts join the times"
    Row("fps", "sphere", {"points": 5}, "ours", "card", (3.0,) * 3).append_to(path)
    assert (read(path)[0].time, read(path)[0].evaluations) == (3.0, 99)
    assert ours.case == "sphere points=5"


def _fps(provider, time, points=20_000):
    sizes = {"clouds": 1, "points": points, "picks": 1_024}
    return Row("fps", "sphere", sizes, provider, "card", (time,) * 3)


def test_goals_are_judged_by_the_rows():
    rows = [_fps("ours", 0.5), _fps("seed", 5.0), _fps("ours", 1.0, 100_000)]
    rows.append(_fps("seed", 20.0, 100_000))
    named = {goal.work: goal for goal in goals.judged(rows)}
    assert named["FPS sphere 20,000 to 1,024"].met is True
    assert named["FPS sphere 100,000 to 1,024"].met is False
    assert named["FPS sphere 1,000,000 to 1,024"].met is None
    assert "1 met, 1 not met" in goals.table(rows)


def test_flat_calls_are_judged_by_counts_and_wall_time():
    sizes = {"clouds": 4, "points": 1_024}
    walls = (1.0, 1.0, 1.0), (0.4, 0.4, 0.4)
    rows = [
        Row("flat", "fps", sizes, "ours", "card", None, walls[0], kernels=3, operators=9),
        Row("flat", "fps", sizes, "dense call", "card", (0.1,) * 3, walls[1]),
    ]
    rows[0].readbacks = 1
    named = {(goal.work, goal.goal): goal.met for goal in goals.judged(rows)}
    assert named["flat.fps 4 x 1,024", "<= 1 read-back, <= 12 dispatches"] is True
    assert named["flat.fps 4 x 1,024, host and device", "<= 2x the dense call"] is False
    rows[0].operators = 10
    named = {(goal.work, goal.goal): goal.met for goal in goals.judged(rows)}
    assert named["flat.fps 4 x 1,024", "<= 1 read-back, <= 12 dispatches"] is False


def test_parts_of_a_page_are_exchanged_between_their_marks():
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    assert report.replaced(page, "x", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no part 'y'"):
        report.replaced(page, "y", "new")


def test_tables_of_a_report():
    rows = [_fps("ours", 0.5), _fps("seed", 5.0), _fps("torch", 7.0)]
    rows[0].kernels, rows[0].operators, rows[0].readbacks = 9, 1, 2
    rows[0].evaluations = 12_345
    rows[1].device_time = None
    rows[1].mismatches, rows[1].checked = 3, 4
    parts = report.parts(rows)
    case = "sphere clouds=1, points=20000, picks=1024"
    assert f"| {case} | 0.5 | 3 of 4 differ | 7 |" in parts["times"]
    assert f"| fps: {case} | 10 | 2 | 12.3k | 0.71 | |" in parts["predicted"]
    assert "3 of 4 values differ" in parts["run"]
    assert (
        "| fps: sphere points=20000, picks=1024 | 0.5 | 3 of 4 differ |  | 7 |" in parts["headline"]
    )
    drawing = report.figure(rows)
    assert drawing.count("<circle") == 4, "two in the legend, two of the case"


def test_a_figure_places_times_on_a_logarithmic_axis():
    drawing = dots("ms", [("a & b", {"x": 0.1, "y": 10.0}), ("c", {"x": 1.0})], ("x", "y", "z"))
    assert "a &amp; b" in drawing
    found = [float(at) for at in re.findall(r'<circle cx="([^"]+)" cy="(?!40)', drawing)]
    assert sorted(found) == [520, 750, 980]
    assert drawing.startswith("<svg")
    assert drawing.endswith("</svg>\n")


def test_the_page_is_what_the_results_say(run_here):
    code, _ = run_here(HERE / "report.py", "--check")
    assert code == 0, code
