"""The reference against oracles that share no code with it."""

import pytest
import torch

from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.reference import furthest_point_sample_reference as reference
from mps_pointops.ops.fps.reference import tie_rank
from pointops_testing import CLOUDS, cloud, oracles


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
def test_picks(name, rule):
    points = cloud(name, 33)
    got = reference(points, 40, start_idx=5, rule=Rule[rule.upper()])
    assert got.tolist() == oracles.fps(points.numpy(), 40, 5, rule)


def test_near_origin_points_are_skipped_except_the_start():
    points = cloud("near_origin", 60)
    got = reference(points, 30, start_idx=7, skip_near_origin=True, rule=Rule.FMA_YXZ)
    assert got.tolist() == oracles.fps(points.numpy(), 30, 7, "fma_yxz", skip=True)


@pytest.mark.parametrize("name", ["random", "lattice", "duplicates", "all_equal"])
@pytest.mark.parametrize("size", [1, 2, 3, 31, 64, 100])
def test_bit_reversed_ties_are_those_of_a_thread_block(name, size):
    points = cloud(name, size)
    count = min(size + 3, 24)
    got = reference(points, count, rule=Rule.FMA_YXZ, ties=Ties.BIT_REVERSED)
    assert got.tolist() == oracles.thread_block_fps(points.numpy(), count)


def test_bit_reversed_ties_of_a_block_with_several_points_a_thread():
    points = cloud("lattice", 530)
    got = reference(points, 8, rule=Rule.FMA_YXZ, ties=Ties.BIT_REVERSED)
    assert got.tolist() == oracles.thread_block_fps(points.numpy(), 8)


@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 1024, 1500])
def test_tie_ranks_are_distinct(size):
    assert len(tie_rank(size, Ties.BIT_REVERSED).unique()) == size


def test_lattice_of_eight_by_eight():
    x, y = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    points = torch.stack((x, y, torch.zeros_like(x)), dim=2).reshape(64, 3)
    assert reference(points, 4).tolist() == [0, 63, 7, 56]
    block = reference(points, 8, rule=Rule.FMA_YXZ, ties=Ties.BIT_REVERSED)
    assert block.tolist() == [0, 63, 56, 7, 36, 25, 4, 60]
