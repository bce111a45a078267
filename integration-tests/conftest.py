"""Suites that need a package which is in conflict with the environment of the other tests.

Such a package is a dependency group of a member, so the lock fixes its version. It is installed
into a folder of its own, and one pytest process of the same interpreter runs the suite with that
folder on its path: torch and the packages of this repository are those of the running environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HERE = ("numpy", "torch")  # taken from the running environment


def _command(*words: str | Path, hint: str = "") -> str:
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        command = " ".join(map(str, words))
        pytest.fail(f"{hint}{command}\n{run.stdout}{run.stderr}", pytrace=False)
    return run.stdout


def _cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "mps-pointops-tests"


def _install(package: str, group: str) -> Path:
    """The folder with a member's dependency group, made on first use and kept in the user's cache.

    Its name has the hash of the locked requirements and of the interpreter. Without a network and
    without that folder the test fails.
    """
    uv = shutil.which("uv")
    if uv is None:
        pytest.fail("uv is not on the path; it installs what this test runs against", pytrace=False)
    prune = [word for name in HERE for word in ("--prune", name)]
    quiet = ("-q", "--no-header", "--no-annotate")
    which = ("--package", package, "--only-group", group)
    locked = _command(uv, "export", "--frozen", *quiet, *which, *prune)
    tag = f"{locked}{sys.version_info[:2]}{sysconfig.get_platform()}"
    folder = _cache() / f"{group}-{hashlib.sha256(tag.encode()).hexdigest()[:16]}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as building:
        requirements, target = Path(building, "requirements.txt"), Path(building, "site")
        requirements.write_text(locked)
        install = (uv, "pip", "install", "-q", "--no-deps", "--python", sys.executable)
        hint = f"{folder} is not there yet; making it takes a network or uv's cache.\n"
        _command(*install, "--target", target, "-r", requirements, hint=hint)
        try:
            target.rename(folder)
        except OSError:  # another process was first
            assert folder.exists()
    return folder


@pytest.fixture
def throwaway():
    """Gives the folder of a member's dependency group: `throwaway(package, group)`."""
    return _install


@pytest.fixture
def run_suite(tmp_path, capsys):
    """Runs files of tests in one process with a throw-away folder on its path.

    Fails if any of its tests failed, was skipped, or if fewer passed than named.
    """

    def run(package, group, files, at_least, path=(), plugins=(), **settings):
        folder = _install(package, group)
        report = tmp_path / "report.xml"
        environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
        environment |= {"PYTHONPATH": os.pathsep.join(map(str, (*path, folder))), **settings}
        options = [word for name in ("no:cacheprovider", *plugins) for word in ("-p", name)]
        words = ("-m", "pytest", "-q", f"--junitxml={report}", *options)
        done = subprocess.run(
            [sys.executable, *words, *map(str, files)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        output = f"{done.stdout}{done.stderr}"
        if not report.exists():
            pytest.fail(f"{group}: no tests ran\n{output}", pytrace=False)
        (suite,) = ET.parse(report).getroot().iter("testsuite")
        total, failed, errors, skipped = (
            int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")
        )
        passed = total - failed - errors - skipped
        counts = f"{group}: {passed} passed, {failed} failed, {errors} errors, {skipped} skipped"
        if done.returncode or passed != total or passed < at_least:
            pytest.fail(f"{counts}; {at_least} have to pass\n{output}", pytrace=False)
        with capsys.disabled():
            print(f"[{counts}] ", end="", flush=True)

    return run
