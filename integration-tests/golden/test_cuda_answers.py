"""Every recorded answer of pointnet2_ops and KNN_CUDA on a CUDA GPU, on both devices.

`cuda_answers.json` says what was recorded and where. Every array is made from recorded inputs and
compared bit for bit, but for the backward sums: there CUDA adds with atomics in no fixed order.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from knn_cuda import KNN
from pointnet2_ops import _ext, pointnet2_utils
from pointops_testing import assert_same_bits

FOLDER = Path(__file__).parent
RECORDED = np.load(FOLDER / "cuda_answers.npz")
ANSWERS = [name for name in RECORDED.files if name.split("/")[1].startswith(("pn2_", "knn_"))]
NEIGHBOURS = {"feat1": 5, "feat2": 9, "feat5": 100, "feat32": 20, "feat128": 12}
CLOUDS = sorted({name.split("/")[0] for name in ANSWERS if "/pn2_" in name})


class Recorded:
    """The arrays of one cloud as tensors of one device."""

    def __init__(self, cloud, device):
        self.cloud, self.device = cloud, device

    def __getattr__(self, name):
        array = RECORDED[f"{self.cloud}/{name}"]
        return torch.from_numpy(array).to(self.device) if array.ndim else float(array)


def _fps(r):
    return pointnet2_utils.furthest_point_sample(r.xyz, min(r.xyz.shape[1], 300))


def _ball(r, number):
    return pointnet2_utils.ball_query(getattr(r, f"radius_{number}"), 16, r.xyz, r.query)


def _three_nn(r):
    return pointnet2_utils.three_nn(r.xyz[:, :200].contiguous(), r.query)


def _interpolate(r):
    return pointnet2_utils.three_interpolate(r.feat, r.pn2_three_nn_idx, r.weight)


def _interpolate_grad(r):
    features = r.feat.requires_grad_()
    out = pointnet2_utils.three_interpolate(features, r.pn2_three_nn_idx, r.weight)
    return torch.autograd.grad(out, features, r.interp_grad_out)[0]


def _gather(r):
    return pointnet2_utils.gather_operation(r.xyz.transpose(1, 2).contiguous(), r.pn2_fps)


def _knn(r):
    if r.cloud.startswith("feat"):
        return KNN(NEIGHBOURS[r.cloud], transpose_mode=True)(r.x, r.q)
    return KNN(min(r.xyz.shape[1], 32), transpose_mode=True)(r.xyz, r.query)


MAKE = {
    "pn2_fps": _fps,
    "pn2_ball_0": lambda r: _ball(r, 0),
    "pn2_ball_1": lambda r: _ball(r, 1),
    "pn2_ball_2": lambda r: _ball(r, 2),
    "pn2_three_nn_dist": lambda r: _three_nn(r)[0],
    "pn2_three_nn_idx": lambda r: _three_nn(r)[1],
    "pn2_interp": _interpolate,
    "pn2_interp_grad": _interpolate_grad,
    "pn2_gather": _gather,
    "knn_dist": lambda r: _knn(r)[0],
    "knn_idx": lambda r: _knn(r)[1],
}


def test_all_of_the_recording_is_here():
    assert len(CLOUDS) == 14
    assert len(ANSWERS) == 14 * len(MAKE) + len(NEIGHBOURS) * 2
    assert {name.split("/")[1] for name in ANSWERS} == set(MAKE)
    provenance = json.loads((FOLDER / "cuda_answers.json").read_text())
    assert provenance["gpu"] == "NVIDIA H200"


@pytest.mark.parametrize("name", [n for n in ANSWERS if not n.endswith("/pn2_interp_grad")])
def test_bits(device, name):
    cloud, key = name.split("/")
    recorded = Recorded(cloud, device)
    assert_same_bits(MAKE[key](recorded), getattr(recorded, key))


def _sum_of_sizes(r):
    """Sums of absolute addends: what the rounding of a sum is relative to."""
    addends = r.interp_grad_out.abs().double().unsqueeze(3) * r.weight.abs().double().unsqueeze(1)
    index = r.pn2_three_nn_idx.long().unsqueeze(1).expand_as(addends)
    sums = torch.zeros(r.feat.shape, dtype=torch.float64)
    return sums.scatter_add(2, index.flatten(2), addends.flatten(2))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_backward_sums(device, cloud):
    """CUDA's order is not fixed: what is common is the sum up to the rounding of its addends."""
    recorded = Recorded(cloud, device)
    grad = _interpolate_grad(recorded)
    size = _sum_of_sizes(Recorded(cloud, "cpu"))
    difference = (grad - recorded.pn2_interp_grad).abs().cpu()
    assert bool((difference <= 1e-6 * size).all())
    for _ in range(2):
        assert_same_bits(_interpolate_grad(recorded), grad)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_backward_sums_are_the_same_on_both_devices(cloud):
    assert_same_bits(
        _interpolate_grad(Recorded(cloud, "mps")), _interpolate_grad(Recorded(cloud, "cpu"))
    )


@pytest.mark.parametrize("cloud", CLOUDS)
def test_group_is_the_gather_of_its_indices(device, cloud):
    """Grouping was not recorded: its values are copies, at indices that were."""
    recorded = Recorded(cloud, device)
    features, index = recorded.xyz.transpose(1, 2).contiguous(), recorded.pn2_ball_1
    grouped = pointnet2_utils.grouping_operation(features, index)
    gathered = pointnet2_utils.gather_operation(features, index.flatten(1))
    assert_same_bits(grouped, gathered.view_as(grouped))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_low_level_three_nn_has_the_squares(device, cloud):
    recorded = Recorded(cloud, device)
    squared, index = _ext.three_nn(recorded.xyz[:, :200].contiguous(), recorded.query)
    root = torch.from_numpy(np.sqrt(squared.cpu().numpy()))
    assert_same_bits(root, recorded.pn2_three_nn_dist)
    assert_same_bits(index, recorded.pn2_three_nn_idx)
