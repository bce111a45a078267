"""Every recorded answer of torch_cluster on a CUDA GPU, by its public functions, on both devices.

Points and queries are those of `cuda_answers.npz`, answers are in `torch_cluster_answers.npz`, and
`cuda_answers.json` says what was recorded. All clouds of a set lie below one another, told apart by
batch vectors; the graphs are of the first 700 rows, taken as one cloud. Searches are equal edge by
edge, in CUDA's order: there are no near ties that another rounding decides.
"""

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import torch_cluster
from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule

FOLDER = Path(__file__).parent
INPUTS = np.load(FOLDER / "cuda_answers.npz")
ANSWERS = np.load(FOLDER / "torch_cluster_answers.npz")
CLOUDS = sorted({name.split("/")[0] for name in ANSWERS.files if name.endswith("/tc_fps")})
FEATURES = sorted({name.split("/")[0] for name in ANSWERS.files} - set(CLOUDS))
KINDS = ["fps", "knn", "radius", "knn_graph", "radius_graph", "nearest", "grid", "knn_cosine"]

# Farthest points that are equally far: torch_cluster on CUDA takes one by its lanes, we the first.
TIED = {"duplicates_600", "equal_257", "lattice_3000", "line_1025", "voxel_1500"}


class Recorded:
    """One set of clouds, rows below one another [B * N, D], and what torch_cluster answered."""

    def __init__(self, cloud, device):
        self.cloud, self.device = cloud, device
        x, y = ("x", "q") if cloud in FEATURES else ("xyz", "query")
        self.x, self.batch_x = self._rows(INPUTS[f"{cloud}/{x}"])
        self.y, self.batch_y = self._rows(INPUTS[f"{cloud}/{y}"])

    def _rows(self, array):
        clouds, size, dim = array.shape
        batch = torch.arange(clouds).repeat_interleave(size)
        return torch.from_numpy(array.reshape(-1, dim)).to(self.device), batch.to(self.device)

    @property
    def size(self):
        return int((self.batch_x == 0).sum())

    @property
    def radius(self):
        return float(INPUTS[f"{self.cloud}/radius_1"])

    def answer(self, kind):
        return torch.from_numpy(ANSWERS[f"{self.cloud}/tc_{kind}"].astype(np.int64))


def assert_recorded(got, recorded, kind):
    wanted = recorded.answer(kind)
    assert got.dtype == torch.int64
    assert got.device.type == recorded.device
    assert got.shape == wanted.shape
    different = (got.cpu() != wanted).nonzero()
    assert different.numel() == 0, f"first of {len(different)} at {different[0].tolist()}"


def test_all_of_the_recording_is_here():
    assert len(CLOUDS) == 14
    assert len(FEATURES) == 5
    wanted = {f"{cloud}/tc_{kind}" for cloud in CLOUDS for kind in KINDS}
    assert set(ANSWERS.files) == wanted | {f"{cloud}/tc_knn" for cloud in FEATURES}


@pytest.mark.parametrize("cloud", CLOUDS + FEATURES)
def test_knn(device, cloud):
    r = Recorded(cloud, device)
    k = min(r.size, 20)
    if cloud in FEATURES:  # there k was chosen by the dimension
        k = r.answer("knn").shape[1] // len(r.y)
        assert k > 0
    edges = torch_cluster.knn(r.x, r.y, k, r.batch_x, r.batch_y)
    assert_recorded(edges, r, "knn")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_radius(device, cloud):
    r = Recorded(cloud, device)
    edges = torch_cluster.radius(r.x, r.y, r.radius, r.batch_x, r.batch_y, max_num_neighbors=12)
    assert_recorded(edges, r, "radius")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_knn_graph(device, cloud):
    r = Recorded(cloud, device)
    assert_recorded(torch_cluster.knn_graph(r.x[:700], 6), r, "knn_graph")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_radius_graph(device, cloud):
    r = Recorded(cloud, device)
    edges = torch_cluster.radius_graph(r.x[:700], 0.75 * r.radius, max_num_neighbors=8)
    assert_recorded(edges, r, "radius_graph")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nearest(device, cloud):
    r = Recorded(cloud, device)
    assert_recorded(torch_cluster.nearest(r.x, r.y, r.batch_x, r.batch_y), r, "nearest")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_grid_cluster(device, cloud):
    r = Recorded(cloud, device)
    size = torch.full((3,), 0.3, device=device)
    assert_recorded(torch_cluster.grid_cluster(r.x, size), r, "grid")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_knn_cosine(device, cloud):
    r = Recorded(cloud, device)
    edges = torch_cluster.knn(r.x, r.y, min(r.size, 5), r.batch_x, r.batch_y, cosine=True)
    assert_recorded(edges, r, "knn_cosine")


# --- farthest point sampling


@cache
def walk(cloud, picks):
    """Follows picks: are all of them farthest when they are picked, and is any of them tied?

    Decided on float32 squared distances as both sides round them (fma, coordinates in order).
    """
    r = Recorded(cloud, "cpu")
    is_farthest, is_tied = True, False
    for number in range(int(r.batch_x.max()) + 1):
        rows = (r.batch_x == number).nonzero().flatten()
        points, first = r.x[rows], int(rows[0])
        mine = [pick - first for pick in picks if first <= pick < first + len(rows)]
        assert mine[0] == 0
        nearest = points.new_full((len(points),), torch.inf)
        for before, pick in pairwise(mine):
            distance = squared_distance(points, points[before], Rule.FMA_XYZ)
            nearest = torch.minimum(nearest, distance)
            is_farthest = is_farthest and bool(nearest[pick] == nearest.max())
            is_tied = is_tied or int((nearest == nearest.max()).sum()) > 1
    return is_farthest, is_tied


def test_which_clouds_have_ties():
    """Without ties the order of picking is unique; 9 of the 14 clouds are so."""
    tied = {c for c in CLOUDS if walk(c, tuple(Recorded(c, "cpu").answer("fps").tolist()))[1]}
    assert tied == TIED
    assert len(set(CLOUDS) - tied) == 9


@pytest.mark.parametrize("cloud", CLOUDS)
def test_fps(device, cloud):
    r = Recorded(cloud, device)
    got = torch_cluster.fps(r.x, r.batch_x, ratio=0.3, random_start=False)
    if cloud not in TIED:
        assert_recorded(got, r, "fps")
        return
    # the same number of picks, and each of them farthest, as CUDA's are
    wanted = r.answer("fps")
    assert got.dtype == torch.int64
    assert got.shape == wanted.shape
    assert walk(cloud, tuple(wanted.tolist()))[0]
    assert walk(cloud, tuple(got.tolist()))[0]
