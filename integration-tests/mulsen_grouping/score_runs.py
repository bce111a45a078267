"""Compares the per-sample scores of two runs of a detector, say on CUDA and on an Apple GPU.

Each run is a .csv file with a heading and the columns sample, label (0 good, 1 anomalous), score.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Scores = NDArray[np.float64]
Labels = NDArray[np.bool_]


def read(path: Path) -> dict[str, tuple[bool, float]]:
    """Label and score of every sample of a run."""
    rows: dict[str, tuple[bool, float]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                name, label, score = row["sample"], int(row["label"]), float(row["score"])
            except (KeyError, TypeError, ValueError) as error:
                raise SystemExit(f"{path}:{number}: sample, label, score expected") from error
            if name in rows or label not in (0, 1) or not np.isfinite(score):
                wanted = "a new sample, a label of 0 or 1 and a finite score"
                raise SystemExit(f"{path}:{number}: {wanted} expected, got {name},{label},{score}")
            rows[name] = bool(label), score
    return rows


def auroc(labels: Labels, scores: Scores) -> float:
    """Chance that an anomalous sample scores above a good one; a tie counts half."""
    bad = int(labels.sum())
    good = len(labels) - bad
    if not bad or not good:
        return float("nan")
    return float((rankdata(scores)[labels].sum() - bad * (bad + 1) / 2) / (bad * good))


def average_precision(labels: Labels, scores: Scores) -> float:
    """Sum of precision times the gain of recall over the thresholds, highest score first."""
    if not labels.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(labels[order])
    last = np.append(np.diff(scores[order]) != 0, True)  # samples of one score enter together
    recall = hits[last] / hits[-1]
    precision = hits[last] / (np.flatnonzero(last) + 1)
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def compare(
    first: dict[str, tuple[bool, float]], second: dict[str, tuple[bool, float]]
) -> dict[str, Any]:
    """What two runs have in common; refuses runs of different samples or labels."""
    if first.keys() != second.keys():
        odd = sorted(first.keys() ^ second.keys())
        raise SystemExit(f"{len(odd)} samples are in one run only: {', '.join(odd[:5])}")
    names = sorted(first)
    if not names:
        raise SystemExit("the runs have no samples")
    labels, again = (np.array([run[name][0] for name in names]) for run in (first, second))
    if (labels != again).any():
        raise SystemExit(f"the runs differ in labels: {names[int((labels != again).argmax())]}")
    a, b = (np.array([run[name][1] for name in names]) for run in (first, second))
    size = np.maximum(np.abs(a), np.abs(b))
    relative = np.divide(np.abs(a - b), size, out=np.zeros_like(a), where=size > 0)
    worst = int(relative.argmax())
    ranks, other = rankdata(a, method="dense"), rankdata(b, method="dense")
    return {
        "samples": len(names),
        "anomalous": int(labels.sum()),
        "auroc": [auroc(labels, a), auroc(labels, b)],
        "average_precision": [average_precision(labels, a), average_precision(labels, b)],
        "largest_relative_difference": float(relative[worst]),
        "largest_at": names[worst],
        "same_ranking": bool((ranks == other).all()),
        "moved_samples": int((rankdata(a) != rankdata(b)).sum()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument(
        "--tolerance", type=float, default=1e-4, help="relative difference that passes"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    found = compare(read(chosen.first), read(chosen.second))
    good = found["same_ranking"] and found["largest_relative_difference"] <= chosen.tolerance
    if chosen.json:
        print(json.dumps({**found, "passed": good}, indent=1))
        return 0 if good else 1
    print(f"{found['samples']} samples, {found['anomalous']} anomalous")
    for name, words in (("auroc", "AUROC"), ("average_precision", "average precision")):
        print(f"{words}: {found[name][0]:.6f} and {found[name][1]:.6f}")
    largest = found["largest_relative_difference"]
    print(f"largest relative difference of a score: {largest:.3g} ({found['largest_at']})")
    same = "the same" if found["same_ranking"] else f"{found['moved_samples']} samples moved"
    print(f"ranking: {same}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
