"""The kernels of ragged calls against the operators of torch that the CPU uses."""

import pytest
import torch

from mps_pointops._edges import count_edges, edges
from mps_pointops._flat_fps import flat_fps
from mps_pointops._flat_mps.picks import NUMBERED, POINTER, ROWS, Plan
from mps_pointops._flat_names import Names
from mps_pointops._picks import Ratio
from mps_pointops._ragged import Facts
from mps_pointops._segments import segments
from pointops_testing import assert_same_bits

# one part, its end, several parts, more rows than parts have by default
SIZES = (1, 2, 63, 64, 65, 257, 1023, 20_000)


def _clouds(size, seed, gaps=True):
    """A sorted batch vector: long and short clouds, and numbers that are missing."""
    rng = torch.Generator().manual_seed(seed)
    cuts = torch.randint(0, size + 1, (max(1, size // 100),), generator=rng)
    number = (torch.arange(size).unsqueeze(1) >= cuts).sum(dim=1)
    return number * 3 + 1 if gaps else number


def _points(size, seed, dim=3):
    points = torch.rand(size, dim, generator=torch.Generator().manual_seed(seed))
    points[::7, 0] = torch.inf
    points[3::50, dim - 1] = torch.nan
    points[5::31] = 0.0
    return points


@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_ranges_and_counts(size, cosine):
    rows, rule = max(1, size // 3), 3 if cosine else 0
    x, y = _points(size, 1), _points(rows, 2)
    batch_x, batch_y = _clouds(size, 3), _clouds(rows, 4)
    ptr = torch.tensor([0, size // 5, size // 5, size // 2, size])
    ptr_y = torch.tensor([0, 0, rows // 2, rows, rows])
    for given in (
        (None, None, None, None),
        (batch_x, batch_y, None, None),
        (torch.zeros_like(batch_x), None, None, None),
        (None, torch.zeros_like(batch_y), None, None),
        (None, None, ptr, ptr_y),
    ):
        for k in (4,) if size > 2000 else (None, 4, size):
            found = {}
            for device in ("cpu", "mps"):
                moved = (None if g is None else g.to(device) for g in given)
                where = segments(Names("op"), x.to(device), y.to(device), *moved, k=k, rule=rule)
                where.facts.fetch()
                found[device] = where
            wanted, got = found["cpu"], found["mps"]
            assert (got.first is None) == (wanted.first is None)
            if wanted.first is not None:
                assert_same_bits(got.first, wanted.first)
                assert_same_bits(got.last, wanted.last)
            if k is not None:
                assert got.counts.rows.tolist() == wanted.counts.rows.tolist()
                assert (got.counts.total, got.counts.most) == (
                    wanted.counts.total,
                    wanted.counts.most,
                )


@pytest.mark.parametrize("size", [2, 65, 20_000])
@pytest.mark.parametrize("at", [1, -1])
@pytest.mark.parametrize("side", [0, 1])
def test_lists_that_descend_are_found_everywhere(size, at, side):
    good, bad = torch.zeros(size, dtype=torch.int64), torch.arange(size)
    bad[at] = bad[at - 1] - 1
    points = torch.zeros(size, 3, device="mps")
    given = [good.to("mps"), good.to("mps")]
    given[side] = bad.to("mps")
    where = segments(Names("op"), points, points, *given)
    with pytest.raises(ValueError, match=f"batch_{'xy'[side]} must be sorted"):
        where.facts.fetch()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("slots", [1, 2, 33])
@pytest.mark.parametrize("kind", ["found", "graph", "given"])
def test_edges(size, slots, kind):
    rng = torch.Generator().manual_seed(size + slots)
    number = torch.randint(0, slots + 1, (size,), generator=rng)
    if size == 65:
        number[:] = slots
    index = torch.randint(0, size, (size, slots), generator=rng)
    if kind == "graph":  # a row's own number stands in one place at most
        index += (index == torch.arange(size).unsqueeze(1)).long()
        place = torch.randint(0, slots + 1, (size,), generator=rng)
        index[torch.arange(slots) == place.unsqueeze(1)] = torch.arange(size)[place < slots]
    index[torch.arange(slots) >= number.unsqueeze(1)] = -1
    made = []
    for device in ("cpu", "mps"):
        facts = Facts("op")
        given = number if kind == "given" else index
        counts = count_edges(facts, given.to(device), graph=kind == "graph")
        facts.fetch()
        made.append((counts.total, counts.most, edges(index.to(device), counts)))
        turned = edges(index.to(device), counts, reverse=True)
        assert_same_bits(turned, made[-1][2].flip(0))
    assert made[0][:2] == made[1][:2]
    assert_same_bits(made[1][2], made[0][2])


def test_room_for_facts_is_checked():
    facts, like = Facts("op"), torch.zeros(1, device="mps")
    for number, count in enumerate((2056, 2040)):
        facts.add_room(lambda values: None, count, like).fill_(number)
    with pytest.raises(RuntimeError, match="op: 4097 facts, where there is room for 4096"):
        facts.add_room(lambda values: None, 1, like)


@pytest.mark.parametrize(
    ("size", "ratio"),
    [
        *((size, 0.3) for size in SIZES),
        *((257, ratio) for ratio in (0.0, -0.0, 1e-45, 1e-30, 0.001, 1.0, 2.5, 1e4)),
    ],
)
def test_picks(size, ratio):
    points = torch.zeros(size, 3)
    value = torch.tensor(ratio)
    gaps, dense = _clouds(size, 5), _clouds(size, 6, gaps=False)
    clouds = int(dense.max()) + 3
    ptr = torch.searchsorted(dense, torch.arange(clouds + 1))
    each = torch.linspace(0.0, 1.5, clouds)
    for form, told, number, part in (
        (ROWS, gaps, 0, value),
        (NUMBERED, dense, clouds, value),
        (NUMBERED, dense, clouds, each.to("mps")),
        (POINTER, ptr, clouds, value.to("mps")),
    ):
        known = part.item() if part.dim() == 0 and part.device.type == "cpu" else part
        plan = Plan(points.to("mps"), form, told.to("mps"), number, known)
        facts = Facts("op")
        plan.count(facts.add_room(plan.take, plan.numbers, plan.told))
        facts.fetch()
        begins = (
            ptr
            if form != ROWS
            else torch.tensor([0, *gaps.unique_consecutive(return_counts=True)[1].cumsum(0)])
        )
        sizes = begins.diff()
        counts = Ratio(Names("op"), part.cpu(), torch.float32, points).counts(sizes)
        assert plan.valid
        assert plan.ordered
        assert (plan.clouds, plan.total) == (len(sizes), counts.sum())
        assert (plan.largest, plan.most) == (sizes.max(), counts.max())
        got = plan.place(random=False)
        for tensor, wanted in zip(
            got,
            (begins, torch.tensor([0, *counts.cumsum(0)]), torch.zeros_like(sizes)),
            strict=True,
        ):
            assert tensor.tolist() == wanted.tolist()
        starts = plan.place(random=True)[2].cpu()
        assert ((starts >= 0) & ((starts < sizes) | (sizes == 0))).all()


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), -1e-45])
@pytest.mark.parametrize("on_host", [True, False])
def test_ratios_that_are_none(value, on_host):
    x, batch = torch.zeros(70, 3, device="mps"), torch.tensor([0] * 30 + [1] * 40, device="mps")
    ratio = torch.tensor(value) if on_host else torch.tensor([value] * 2).to("mps")
    for told in ((batch, None), (None, None)) if on_host else ((batch, None),):
        with pytest.raises(ValueError, match="ratio must be finite and not negative"):
            flat_fps(x, *told, ratio, False, None, 0, 0)
