"""Tables and figure of the pages from a file of results: `python bench/report.py [FILE]`.

`--check` changes nothing and ends with status 1 if a page is not what the results say.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import goals
from figure import dots
from harness import OURS, Row, read

HERE = Path(__file__).parent
PAGES = {  # pages with generated parts, by name
    HERE / "README.md": ("run", "goals", "times", "predicted"),
    HERE.parent / "README.md": ("headline",),
}
FIGURE = HERE / "results" / "cuda-h200.svg"
DISPATCH, READBACK = 17, 270  # microseconds of host time on a Mac, roughly
HEADLINE = (OURS, "seed", "1.0.0", "torch")
PROVIDERS = (OURS, "ours, reused index", "seed", "seed, simdgroup", "1.0.0", "torch")
SHOWN = {  # in the figure and the headline: cases by operator
    "fps": (
        "sphere clouds=1, points=20000, picks=1024",
        "sphere clouds=1, points=100000, picks=1024",
        "sphere clouds=1, points=1000000, picks=1024",
        "sphere clouds=1, points=100000, picks=25000",
        "sphere clouds=32, points=2048, picks=512",
    ),
    "knn": (
        "sphere clouds=1, queries=1024, points=100000, k=128",
        "sphere clouds=1, queries=100000, points=100000, k=16",
        "sphere clouds=32, queries=1024, points=1024, k=20",
        "features clouds=32, points=1024, D=64, k=20",
    ),
    "ball_query": (
        "sphere clouds=1, queries=1024, points=100000, r=0.1, K=64",
        "sphere sorted by x clouds=1, queries=1024, points=100000, r=0.1, K=64",
    ),
    "three_nn": ("sphere clouds=1, unknown=100000, known=1024",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=goals.RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows = read(options.file)
    made = parts(rows)
    changed = {FIGURE: figure(rows)}
    for page, names in PAGES.items():
        text = page.read_text()
        for name in names:
            text = replaced(text, name, made[name])
        changed[page] = text
    if options.check:
        stale = [page.name for page, text in changed.items() if page.read_text() != text]
        sys.exit(f"not what the results say: {stale}; run bench/report.py" if stale else 0)
    for page, text in changed.items():
        page.write_text(text)


def parts(rows: Sequence[Row]) -> dict[str, str]:
    """The generated parts of the pages by name."""
    return {
        "run": _run(rows),
        "goals": goals.table(rows),
        "times": "\n\n".join(_times(rows)),
        "predicted": _predicted(rows),
        "headline": _headline(rows),
    }


def replaced(text: str, name: str, part: str) -> str:
    """A page with what is between two marks exchanged.

    Raises:
        ValueError: If the page has not these marks.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, found, rest = text.partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise ValueError(f"the page has no part {name!r}")
    return f"{before}{begin}{part}\n{end}{after}"


def _run(rows: Sequence[Row]) -> str:
    devices = sorted({row.device for row in rows})
    versions = sorted({" ".join(f"{k} {v}," for k, v in row.versions.items()) for row in rows})
    wrong = sum(row.mismatches for row in rows if row.provider != "torch")
    checked = sum(row.checked for row in rows if row.provider != "torch")
    return (
        f"{'; '.join(devices)}; {'; '.join(versions).rstrip(',')}. {len(rows)} rows; "
        f"{wrong} of {checked:,} values differ from the CPU path or the reference."
    )


def _times(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each operator: a line for each case, a column for each provider."""
    for op in dict.fromkeys(row.op for row in rows):
        here = [row for row in rows if row.op == op]
        found = {row.provider for row in here}
        names = [name for name in PROVIDERS if name in found]
        names += sorted(found - set(names))
        lines = [f"**{op}**", "", "| case | " + " | ".join(names) + " |"]
        lines.append("|---" * (len(names) + 1) + "|")
        for case in dict.fromkeys(row.case for row in here):
            times = {row.provider: row for row in here if row.case == case}
            shown = [_shown(times.get(name)) for name in names]
            lines.append(f"| {case} | " + " | ".join(shown) + " |")
        yield "\n".join(lines)


def _shown(row: Row | None) -> str:
    if row is None:
        return ""
    if row.time is None:
        return f"{row.mismatches} of {row.checked} differ"
    wall = "" if row.device_time else " (wall)"
    part = f"{row.mismatches / row.checked:.1%}" if row.mismatches else ""
    wrong = f", {part if part != '0.0%' else '<0.1%'} differ" if part else ""
    return f"{row.time:.4g}{wall}{wrong}"


def _headline(rows: Sequence[Row]) -> str:
    """Milliseconds of the cases in `SHOWN`."""
    lines = [
        "| ms on the device | ours | scanning | 1.0.0 | plain PyTorch |",
        "|---|---|---|---|---|",
    ]
    for op, case in _chosen(rows):
        found = {row.provider: row for row in rows if (row.op, row.case) == (op, case)}
        shown = " | ".join(_shown(found.get(name)) for name in HEADLINE)
        lines.append(f"| {op}: {case.replace('clouds=1, ', '')} | {shown} |")
    return "\n".join(lines)


def _chosen(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    there = {(row.op, row.case) for row in rows}
    return ((op, case) for op, cases in SHOWN.items() for case in cases if (op, case) in there)


def _predicted(rows: Sequence[Row]) -> str:
    lines = [
        "| call | dispatches | read-backs | evaluations | predicted host time, ms "
        "| measured on a Mac, ms |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.provider not in (OURS, "dense call") or row.dispatches is None:
            continue
        reads = row.readbacks or 0
        cost = (row.dispatches * DISPATCH + reads * READBACK) / 1e3
        lines.append(
            f"| {row.op}: {row.case}{', dense call' if row.provider != OURS else ''} | "
            f"{row.dispatches} | {reads} | {_short(row.evaluations)} | {cost:.2f} | |"
        )
    return "\n".join(lines)


def _short(number: int | None) -> str:
    if number is None:
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def figure(rows: Sequence[Row]) -> str:
    """The times of the cases in `SHOWN` as a drawing."""
    lines: list[tuple[str, dict[str, float]]] = []
    for op, case in _chosen(rows):
        found = [row for row in rows if (row.op, row.case) == (op, case)]
        times = {row.provider: row.time for row in found if row.time is not None}
        if times:
            lines.append((f"{op}: {case}", times))
    return dots("Milliseconds on the device", lines, PROVIDERS)


if __name__ == "__main__":
    main()
