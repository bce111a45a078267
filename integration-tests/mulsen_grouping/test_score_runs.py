"""The scores' measures against every pair and every threshold, one by one."""

import json

import numpy as np
import pytest

SAMPLES = [(0, 0.1), (0, 0.4), (1, 0.35), (1, 0.8), (0, 0.4), (1, 0.4), (0, 0.05)]


def run_file(path, rows):
    lines = [f"hole/{n},{label},{score!r}" for n, (label, score) in enumerate(rows)]
    path.write_text("\n".join(["sample,label,score", *lines]) + "\n")
    return path


def random_scores(seed):
    rng = np.random.default_rng(seed)
    labels = rng.random(40) < 0.4
    return labels, np.round(rng.random(40) + 0.3 * labels, 1 + seed % 3)  # with ties


@pytest.mark.parametrize("seed", range(6))
def test_auroc_counts_pairs(score_runs, seed):
    labels, scores = random_scores(seed)
    pairs = [(b > g) + 0.5 * (b == g) for b in scores[labels] for g in scores[~labels]]
    assert score_runs.auroc(labels, scores) == pytest.approx(np.mean(pairs), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_average_precision_goes_through_thresholds(score_runs, seed):
    labels, scores = random_scores(seed)
    wanted, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        taken = scores >= threshold
        recall = (taken & labels).sum() / labels.sum()
        wanted += (recall - before) * (taken & labels).sum() / taken.sum()
        before = recall
    assert score_runs.average_precision(labels, scores) == pytest.approx(wanted, abs=1e-12)


def test_one_class_has_no_auroc(score_runs):
    labels = np.zeros(3, bool)
    assert np.isnan(score_runs.auroc(labels, np.arange(3.0)))
    assert np.isnan(score_runs.average_precision(labels, np.arange(3.0)))


def test_nearly_equal_runs_pass(score_runs, tmp_path, capsys):
    first = run_file(tmp_path / "a.csv", SAMPLES)
    second = run_file(tmp_path / "b.csv", [(n, s * (1 + 1e-6)) for n, s in SAMPLES])
    assert score_runs.main([str(first), str(second), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"]
    assert found["same_ranking"]
    assert found["largest_relative_difference"] == pytest.approx(1e-6, rel=1e-3)
    assert found["auroc"][0] == found["auroc"][1] == pytest.approx((2 + 4 + 3) / 12)


@pytest.mark.parametrize(
    ("place", "score", "said"),
    [
        (3, 0.8004, "ranking: the same"),  # by more than the tolerance
        (1, 0.40001, "ranking: 3 samples moved"),  # within it, but a tie is broken
    ],
)
def test_different_runs_fail(score_runs, tmp_path, capsys, place, score, said):
    rows = list(SAMPLES)
    rows[place] = (rows[place][0], score)
    first = run_file(tmp_path / "a.csv", SAMPLES)
    second = run_file(tmp_path / "b.csv", rows)
    assert score_runs.main([str(first), str(second)]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sample,label,score\na,0,nan\n", "b.csv:2: .* finite score"),
        ("sample,label,score\na,2,0.1\n", "b.csv:2: "),
        ("sample,score\na,1\n", "b.csv:2: sample, label, score expected"),
        ("sample,label,score\nhole/0,0,1\n", "6 samples are in one run only: hole/1"),
    ],
)
def test_bad_files_are_refused(score_runs, tmp_path, text, said):
    first = run_file(tmp_path / "a.csv", SAMPLES)
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(SystemExit, match=said):
        score_runs.main([str(first), str(tmp_path / "b.csv")])


def test_labels_have_to_agree(score_runs, tmp_path):
    first = run_file(tmp_path / "a.csv", SAMPLES)
    second = run_file(tmp_path / "b.csv", [(1 - n, s) for n, s in SAMPLES])
    with pytest.raises(SystemExit, match="differ in labels: hole/0"):
        score_runs.main([str(first), str(second)])
