"""Ball queries on the CPU need memory for their results, not for the coordinates of their pairs."""

import subprocess
import sys

import pytest

# all points lie on the surface of the ball, or all are hits: every pair is looked at closely
_PROGRAM = """
from pathlib import Path

import torch
from mps_pointops import ball_query, flat

torch.set_num_threads(1)
ref = torch.zeros(4096, 256)
ref[torch.arange(4096), torch.arange(4096) % 256] = 1.0
query = torch.zeros(32, 256)
calls = [
    lambda q: ball_query(q[None], ref[None], 1.0, 16),
    lambda q: ball_query(q[None], ref[None], 2.0, 4096),
    lambda q: flat.radius(ref, q, 1.0, max_num_neighbors=None),
]


def peak():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024


for call in calls:
    call(query[:1])
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    call(query)
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read in /proc")
def test_pairs_are_not_copied_all_at_once():
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # one copy of 256 coordinates of 2**17 pairs takes 128 MB
    peaks = [float(line) for line in done.stdout.split()]
    assert len(peaks) == 3
    assert max(peaks) < 160, peaks
