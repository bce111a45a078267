"""The benchmark scripts run, check before they time, and fail on a wrong result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OPS = (
    "fps",
    "knn",
    "ball_query",
    "gather",
    "three_nn",
    "interpolate",
    "inverse_index",
    "grid_cluster",
    "graclus_cluster",
    "nearest",
    "random_walk",
    "neighbor_sampler",
)


def _run(script, *arguments):
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("op", OPS)
def test_quick_rows(op, tmp_path):
    output = tmp_path / "rows.jsonl"
    script = HERE / op / f"bench_{op}.py"
    done = _run(script, "--quick", "--device", "cpu", "--repeats", "1", "--output", str(output))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert rows
    for row in rows:
        assert row["op"] == op
        assert row["mismatches"] == 0 < row["checked"]
        assert row["milliseconds"] > 0
        assert {"mps_pointops", "torch", "commit"} <= row["versions"].keys()
        assert row["case"] in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_emulated_rows_say_so(op):
    done = _run(HERE / op / f"bench_{op}.py", "--quick", "--emulated", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    assert "not of a GPU" in done.stdout or "Apple" in done.stdout


def test_a_wrong_result_has_no_time(tmp_path):
    script = tmp_path / "bench_wrong.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import torch\n"
        "from harness import Bench\n"
        "bench = Bench('wrong')\n"
        "bench.row('one off', lambda: torch.tensor([1, 2]), lambda: torch.tensor([1, 3]))\n"
        "bench.row('shape', lambda: torch.zeros(3), lambda: torch.zeros(2))\n"
        "bench.end()\n"
    )
    output = tmp_path / "rows.jsonl"
    done = _run(script, "--device", "cpu", "--output", str(output))
    assert done.returncode == 1
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["mismatches"] for row in rows] == [1, 2]
    assert [row["milliseconds"] for row in rows] == [None, None]
