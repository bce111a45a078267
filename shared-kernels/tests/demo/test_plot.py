from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from numpy.typing import NDArray

import mps_pointops
from mps_pointops.demo.device import Target
from mps_pointops.demo.errors import DemoError
from mps_pointops.demo.pipeline import Result, default_radius
from mps_pointops.demo.plot import View, check_target, choose_group, choose_view, draw


def make_result(cloud: NDArray[np.float32]) -> Result:
    points = torch.from_numpy(cloud)
    picks = mps_pointops.furthest_point_sample(points[None], 30)[0]
    query = points[picks][None]
    distance, near = mps_pointops.knn(query, points[None], 10)
    radius, source = default_radius(distance, cloud)
    _, hits = mps_pointops.ball_query(query, points[None], radius, 10)
    return Result((), radius, source, picks, near[0], hits[0])


@pytest.mark.parametrize("scale", [(1, 1, 0.4), (4, 1, 0.1), (0.1, 1, 5)], ids=str)
def test_a_picture_of_every_layout(
    tmp_path: Path, cloud: NDArray[np.float32], scale: tuple[float, ...]
) -> None:
    points = cloud * np.array(scale, dtype=np.float32)
    path = tmp_path / "out.png"
    draw(path, "cloud", points, make_result(points), Target("cpu"))
    pixels = imread(path)[..., :3]
    assert min(pixels.shape[:2]) > 400
    ink = pixels.min(axis=2) < 0.9
    # something is drawn in the left, middle and right thirds
    assert all(third.mean() > 0.005 for third in np.array_split(ink, 3, axis=1))
    colourful = np.ptp(pixels, axis=2) > 0.3
    assert colourful.mean() > 0.002


def test_the_view_shows_the_two_longest_sides(cloud: NDArray[np.float32]) -> None:
    wanted = [View(1, 2, 0, 1), View(0, 2, 1, -1), View(0, 1, 2, 1)]
    for axis, view in enumerate(wanted):
        flat = cloud.copy()
        flat[:, axis] *= 0.3
        assert choose_view(flat) == view
        # right-handed: across x up points to the viewer
        toward = np.cross(np.eye(3)[view.across], np.eye(3)[view.up])
        assert toward[view.depth] == view.toward


def test_the_group_is_not_full_and_on_the_near_side(cloud: NDArray[np.float32]) -> None:
    result = make_result(cloud)
    view = choose_view(cloud)
    hits = result.hits.numpy()
    index = choose_group(cloud, result.picks.numpy(), hits, view)
    assert 0 < (hits[index] >= 0).sum() < hits.shape[1]
    assert view.toward * cloud[result.picks[index], view.depth] > 0


def test_empty_balls_can_be_drawn(tmp_path: Path, cloud: NDArray[np.float32]) -> None:
    result = make_result(cloud)
    result.hits.fill_(-1)
    draw(tmp_path / "out.png", "cloud", cloud, result, Target("cpu"))
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # its import fails
    with pytest.raises(DemoError, match=re.escape('pip install "mps-pointops[demo]"')):
        check_target(tmp_path / "out.png")
