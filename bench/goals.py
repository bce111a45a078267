"""The goals of the kernels, and what a file of results says of them.

    python bench/goals.py [bench/results/cuda-h200.jsonl]

Times are the device's own where a call can be replayed without the host, else wall time. Builds and
sorts are in them unless an index is reused.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness import ADVERSARIES, OURS, Row, read

RESULTS = Path(__file__).parent / "results" / "cuda-h200.jsonl"
REUSED = "ours, reused index"
LANE, SIMDGROUP = "seed", "seed, simdgroup"


@dataclass(frozen=True)
class Goal:
    """One line of the table.

    Attributes:
        work: What is done.
        goal: The goal in words.
        measured: The measured value in words; None where rows are missing.
        met: Whether it is met.
    """

    work: str
    goal: str
    measured: str | None
    met: bool | None


class Results:
    """Rows of a run, by what was done and by whom.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)

    def row(self, op: str, cloud: str, provider: str, **sizes: object) -> Row | None:
        """The row with these sizes, others of its sizes being whatever they are."""
        for row in self._rows:
            same = row.op == op and row.input == cloud and row.provider == provider
            same = same and "ties" not in row.sizes
            if same and sizes.items() <= row.sizes.items():
                return row
        return None

    def time(self, op: str, cloud: str, provider: str, **sizes: object) -> float | None:
        """Median time of that row in milliseconds."""
        row = self.row(op, cloud, provider, **sizes)
        return row.time if row else None


def _times_faster(
    work: str, least: float, ours: float | None, other: float | None, than: str = LANE
) -> Goal:
    goal = f">= {least:g}x over {than}"
    if not ours or not other:
        return Goal(work, goal, None, None)
    ratio = other / ours
    return Goal(work, goal, f"{ratio:.3g}x ({other:.4g} / {ours:.4g} ms)", ratio >= least)


def _at_most(work: str, most: float, ours: float | None, other: float | None, than: str) -> Goal:
    goal = f"<= {most:g}x {than}"
    if not ours or not other:
        return Goal(work, goal, None, None)
    ratio = ours / other
    return Goal(work, goal, f"{ratio:.3g}x ({ours:.4g} / {other:.4g} ms)", ratio <= most)


def _fps(results: Results) -> Iterator[Goal]:
    for picks, floors in (
        (1_024, ((20_000, 8), (100_000, 25), (1_000_000, 80))),
        (25_000, ((100_000, 40), (1_000_000, 200))),
    ):
        for points, least in floors:
            long = picks > 1_024
            clouds = ("sphere", "lidar", "lattice") if long else ("sphere", "lidar", "scan")
            for cloud in clouds if points < 1_000_000 or not long else clouds[:1]:
                sizes = {"clouds": 1, "points": points, "picks": picks}
                ours, seed = (results.time("fps", cloud, p, **sizes) for p in (OURS, LANE))
                yield _times_faster(f"FPS {cloud} {points:,} to {picks:,}", least, ours, seed)
    sizes = {"clouds": 32, "points": 2_048, "picks": 512}
    ours, seed = (results.time("fps", "sphere", p, **sizes) for p in (OURS, LANE))
    yield _times_faster("FPS sphere 32 x 2,048 to 512", 1.5, ours, seed)


def _knn(results: Results) -> Iterator[Goal]:
    def time(provider: str, cloud: str = "sphere", **sizes: int) -> float | None:
        return results.time("knn", cloud, provider, **sizes)

    some = {"clouds": 1, "queries": 1_024, "points": 100_000, "k": 128}
    work = "kNN 1,024 of 100,000, k=128"
    yield _times_faster(f"{work}, one shot", 2, time(OURS, **some), time(LANE, **some))
    yield _times_faster(f"{work}, reused index", 5, time(REUSED, **some), time(LANE, **some))
    some["points"] = 20_000
    yield _times_faster("kNN 1,024 of 20,000, k=128", 2, time(OURS, **some), time(LANE, **some))
    itself = {"clouds": 1, "queries": 100_000, "points": 100_000, "k": 16}
    for cloud in ("sphere", "lidar", "scan"):
        yield _times_faster(
            f"kNN {cloud} 100,000 in itself, k=16", 30,
            time(OURS, cloud, **itself), time(LANE, cloud, **itself),
        )  # fmt: skip
    million = {"clouds": 1, "queries": 1_000_000, "points": 1_000_000, "k": 16}
    for cloud in ("sphere", "lidar"):
        yield _at_most(
            f"kNN {cloud} 1,000,000 in itself, k=16", 15,
            time(OURS, cloud, **million), time(OURS, cloud, **itself), "the time of 100,000",
        )  # fmt: skip
    features = {"clouds": 32, "points": 1_024, "D": 64, "k": 20}
    ours, seed, torch = (time(p, "features", **features) for p in (OURS, LANE, "torch"))
    yield _times_faster("kNN 32 x 1,024, D=64, k=20, exact", 7, ours, seed)
    yield _times_faster("kNN 32 x 1,024, D=64, k=20, exact", 1, ours, torch, "cdist + topk")
    small = {"clouds": 32, "points": 1_024, "k": 20}
    yield _times_faster("kNN 32 x 1,024, D=3, k=20", 3, time(OURS, **small), time(LANE, **small))


def _ball_query(results: Results) -> Iterator[Goal]:
    sizes = {"clouds": 1, "queries": 1_024, "points": 100_000, "r": 0.1, "K": 64}
    random, in_order = "sphere", "sphere sorted by x"

    def time(cloud: str, provider: str) -> float | None:
        return results.time("ball_query", cloud, provider, **sizes)

    for cloud, lane, simdgroup, again in ((random, 10, 1.5, 4), (in_order, 30, 3.5, 9)):
        work = f"ball query 1,024 of 100,000, K=64, {cloud}"
        one, reused = time(cloud, OURS), time(cloud, REUSED)
        yield _times_faster(f"{work}, one shot", lane, one, time(cloud, LANE))
        yield _times_faster(f"{work}, one shot", simdgroup, one, time(cloud, SIMDGROUP), SIMDGROUP)
        yield _times_faster(
            f"{work}, reused index", again, reused, time(cloud, SIMDGROUP), SIMDGROUP
        )
    yield _at_most(
        "ball query, sorted by x", 1.3, time(in_order, OURS), time(random, OURS), "random order"
    )


def _three_nn(results: Results) -> Iterator[Goal]:
    ours = results.time("three_nn", "sphere", OURS, clouds=1, unknown=100_000, known=1_024)
    measured = None if ours is None else f"{ours:.4f} ms"
    yield Goal(
        "three_nn 100,000 of 1,024", "< 0.1 ms", measured, None if ours is None else ours < 0.1
    )


def _adversaries(results: Results) -> Iterator[Goal]:
    cases = (
        ("FPS 100,000 to 1,024", "fps", LANE, {"points": 100_000, "picks": 1_024}),
        ("kNN 1,024 of 100,000, k=128", "knn", LANE, {"queries": 1_024, "k": 128}),
        ("kNN 100,000 in itself, k=16", "knn", LANE, {"queries": 100_000, "k": 16}),
        ("ball query 1,024 of 100,000", "ball_query", SIMDGROUP, {"queries": 1_024, "K": 64}),
    )
    for words, op, brute, sizes in cases:
        for cloud in ADVERSARIES:
            ours, other = (results.time(op, cloud, p, **sizes) for p in (OURS, brute))
            yield _at_most(f"{words}, {cloud}", 1.5, ours, other, "brute force")


def _flat(results: Results) -> Iterator[Goal]:
    for name in ("fps", "knn", "radius"):
        for clouds, points in ((4, 1_024), (1, 4_096)):
            sizes = {"clouds": clouds, "points": points}
            work = f"flat.{name} {clouds} x {points:,}"
            ours = results.row("flat", name, OURS, **sizes)
            dense = results.row("flat", name, "dense call", **sizes)
            known = ours is not None and ours.dispatches is not None
            said = f"{ours.readbacks} reads, {ours.dispatches} dispatches" if known else None
            met = ours.readbacks <= 1 and ours.dispatches <= 12 if known else None
            yield Goal(work, "<= 1 read-back, <= 12 dispatches", said, met)
            times = [row.wall_time[1] if row and row.wall_time else None for row in (ours, dense)]
            yield _at_most(f"{work}, host and device", 2, *times, "the dense call")


PARTS: tuple[Callable[[Results], Iterator[Goal]], ...] = (
    _fps, _knn, _ball_query, _three_nn, _adversaries, _flat,
)  # fmt: skip


def judged(rows: Sequence[Row]) -> list[Goal]:
    """Every goal with what the rows say of it."""
    results = Results(rows)
    return [goal for part in PARTS for goal in part(results)]


def table(rows: Sequence[Row]) -> str:
    """The goals as a Markdown table, and how many are met."""
    found = judged(rows)
    lines = ["| work | goal | measured | met |", "|---|---|---|---|"]
    said = {True: "yes", False: "**no**", None: "-"}
    lines += [f"| {g.work} | {g.goal} | {g.measured or '-'} | {said[g.met]} |" for g in found]
    counts = [sum(goal.met is value for goal in found) for value in (True, False, None)]
    return "\n".join(
        [*lines, "", f"{counts[0]} met, {counts[1]} not met, {counts[2]} not measured."]
    )


if __name__ == "__main__":
    print(table(read(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)))
