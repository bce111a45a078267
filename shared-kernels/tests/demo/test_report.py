from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mps_pointops.demo import report


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_is_that_of_the_package_alone(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.py", tmp_path / "installed.py"
    ours.write_text("")
    assert report.commit_of(ours) is None
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "ours.py")
    git(tmp_path, "commit", "-qm", "first")
    other.write_text("")
    assert report.commit_of(ours) == git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert report.commit_of(other) is None
    ours.write_text("changed")
    assert str(report.commit_of(ours)).endswith("-dirty")


def test_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert report.commit_of(Path(report.__file__)) is None
