"""Import names: whose files are active, what lies beside them, does it import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mps_pointops.doctor.files import Owner, Place, find_distribution, find_owner, find_place
from mps_pointops.doctor.finding import NOTE, OK, PROBLEM, Finding


@dataclass(frozen=True)
class Name:
    """An import name, its distribution here, and those of others that ship it too."""

    import_name: str
    ours: str
    originals: tuple[str, ...] = ()


# strings only: the drop-ins import this package, never the other way round
NAMES = (
    Name("mps_pointops", "mps-pointops"),
    Name("pointnet2_ops", "pointnet2-ops-mps", ("pointnet2-ops",)),
    Name("knn_cuda", "knn-cuda-mps", ("knn-cuda",)),
    Name("torch_cluster", "torch-cluster-mps", ("torch-cluster",)),
    Name("pyg_lib_mps_plugin", "pyg-lib-mps-plugin"),
)
_IMPORT_SECONDS = 180


def check_name(name: Name, path: Sequence[str]) -> tuple[Finding, dict[str, Any]]:
    """The state of one import name on a module path, and its facts for JSON."""
    place = find_place(name.import_name, path)
    ours = find_owner(name.ours, name.import_name, path)
    found = [find_owner(other, name.import_name, path) for other in name.originals]
    others = [other for other in found if other is not None and not other.is_stub]
    level, what, cure = _judge(name, place, ours, others)
    facts = {
        "import_name": name.import_name,
        "path": place.describe() if place else None,
        "distributions": [_facts(owner) for owner in (ours, *found) if owner is not None],
    }
    return Finding(level, "install", name.import_name, what, cure), facts


def _facts(owner: Owner) -> dict[str, Any]:
    facts = asdict(owner)
    facts["editable"] = str(owner.editable) if owner.editable else None
    return facts


def _judge(
    name: Name, place: Place | None, ours: Owner | None, others: list[Owner]
) -> tuple[str, str, str]:
    install = f"pip install {name.ours}"
    if ours is None:
        return _without_ours(name, place, others, install)
    if others:
        remove = " ".join([*(other.name for other in others), ours.name])
        counts = "; ".join(owner.count() for owner in (ours, *others) if owner.editable is None)
        what = (
            f"two distributions ship it: {ours.title} and "
            f"{', '.join(other.title for other in others)}; "
            f"active is {_active(place, ours, others)} ({counts})"
        )
        return PROBLEM, what, f"pip uninstall -y {remove}\n{install}"
    again = f"pip install --force-reinstall --no-deps {name.ours}"
    if place is None:
        return PROBLEM, f"{ours.title} is installed, but its files are gone", again
    if ours.editable is not None:
        if ours.active:
            return OK, f"{ours.title}, from its source in {ours.editable}", ""
        return PROBLEM, *_shadowed(name, place, ours)
    if not ours.is_whole:
        bad = ", ".join([*ours.missing, *ours.changed][:3])
        return PROBLEM, f"only {ours.count()}; missing or changed: {bad}", again
    if not ours.active:
        return PROBLEM, *_shadowed(name, place, ours)
    return OK, f"{ours.title}, all {len(ours.same)} files as installed", ""


def _without_ours(
    name: Name, place: Place | None, others: list[Owner], install: str
) -> tuple[str, str, str]:
    if others:
        titles = ", ".join(other.title for other in others)
        remove = " ".join(other.name for other in others)
        if place is None or place.init is None:
            what = f"{titles} is installed, but its files are gone"
            return PROBLEM, what, f"pip uninstall -y {remove}\n{install}"
        what = f"that of {titles}; {name.ours} is not installed"
        return NOTE, what, f"for the Apple GPU:\npip uninstall -y {remove}\n{install}"
    if place is None:
        return OK, f"not installed ({install})", ""
    if place.init is None:
        what = f"{place.describe()} is a folder without __init__.py, left by an uninstall"
        return PROBLEM, what, f"remove {place.describe()}, or run: {install}"
    what = f"{place.describe()} belongs to no installed distribution"
    return NOTE, what, f"for the Apple GPU, move it off the module path, then: {install}"


def _shadowed(name: Name, place: Place, ours: Owner) -> tuple[str, str]:
    what = f"{ours.title} is installed, but an import takes {place.describe()}"
    return what, f"move that folder off the module path, or rename it: it hides {name.ours}"


def _active(place: Place | None, ours: Owner, others: list[Owner]) -> str:
    active = [owner.title for owner in (ours, *others) if owner.active]
    if active:
        return active[0]
    if place is None or place.init is None:
        return "neither: the files are gone"
    return "of unknown origin" if ours.active is False else place.describe()


def check_requirements(path: Sequence[str]) -> list[Finding]:
    """Requirements of our distributions that what is installed does not meet."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        what = "versions were not compared: the package `packaging` is not installed"
        return [Finding(NOTE, "install", "requirements", what, "pip install packaging")]
    findings = []
    for name in NAMES:
        found = find_distribution(name.ours, path)
        for text in (found.requires or []) if found else []:
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            there = find_distribution(wanted.name, path)
            version = there.version if there else None
            if version is None or not wanted.specifier.contains(version, prereleases=True):
                bare = f"{wanted.name}{wanted.specifier}"
                what = f"{name.ours} needs {bare}, but {version or 'no version'} is installed"
                cure = f"pip install '{bare}'"
                findings.append(Finding(PROBLEM, "install", name.import_name, what, cure))
    return findings


# One process: what fails to import is told by its error, and warnings are the business of others.
_IMPORTS = """\
import importlib, json, sys
names, sys.path[:] = json.loads(sys.argv[1])
for name in names:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
"""


def check_imports(names: Sequence[Name], path: Sequence[str]) -> list[Finding]:
    """Import names of ours, in a process of their own."""
    wanted = [name.import_name for name in names]
    command = [sys.executable, "-W", "ignore", "-c", _IMPORTS, json.dumps([wanted, list(path)])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_IMPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        what = f"importing takes more than {_IMPORT_SECONDS} seconds"
        return [Finding(PROBLEM, "install", ", ".join(wanted), what, "import one by one")]
    findings = []
    for line in done.stdout.splitlines():
        if line.startswith("["):
            import_name, error = json.loads(line)
            ours = next(name.ours for name in names if name.import_name == import_name)
            cure = f"pip install --force-reinstall --no-deps {ours} mps-pointops"
            what = f"the import fails: {error.splitlines()[0]}"
            findings.append(Finding(PROBLEM, "install", import_name, what, cure))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        what = f"the process that imports ends with exit code {done.returncode}: {last}"
        findings.append(Finding(PROBLEM, "install", ", ".join(wanted), what, "import one by one"))
    return findings
