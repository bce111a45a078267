"""Checks before a release: `check_release.py [--tag TAG] [--files FOLDER]`.

Without options it checks what must hold at every commit: licences, versions in code, changelogs,
ranges between members. With `--tag` also that the tag, the version and the changelog agree; it then
prints `name`, `version` and `folder` as lines for $GITHUB_OUTPUT. With `--files` also that wheels
and source distributions hold what they should and nothing else. Exit code 1 and one line a problem
if something is wrong. Needs Python 3.11 and `packaging`, and git for `--files`.
"""

from __future__ import annotations

import argparse
import email
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[2]
TAG = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)-v(?P<version>\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")
HEADING = re.compile(r"(?P<version>\S+) - \d{4}-\d{2}-\d{2}")
UNRELEASED = "Unreleased"
PRIVATE = "Private :: Do Not Upload"
# in a source distribution, beside src/ and tests/
SDIST_FILES = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}


@dataclass(frozen=True)
class Member:
    """A member of the workspace: its folder, from the root, and `[project]`."""

    folder: str
    project: dict[str, Any]
    root: Path

    @property
    def name(self) -> str:
        """Name of the distribution."""
        return str(self.project["name"])

    @property
    def version(self) -> str:
        """Its version."""
        return str(self.project["version"])

    @property
    def is_private(self) -> bool:
        """Whether it is never uploaded."""
        return PRIVATE in self.project.get("classifiers", [])

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.root / self.folder

    def requirements(self) -> list[Requirement]:
        """All of them, optional ones too."""
        optional = self.project.get("optional-dependencies", {}).values()
        texts = [
            *self.project.get("dependencies", []),
            *(text for group in optional for text in group),
        ]
        return [Requirement(text) for text in texts]


def read_members(root: Path) -> dict[str, Member]:
    """Name -> member."""
    with (root / "pyproject.toml").open("rb") as file:
        patterns = tomllib.load(file)["tool"]["uv"]["workspace"]["members"]
    found = {}
    for pattern in patterns:
        for path in sorted(root.glob(f"{pattern}/pyproject.toml")):
            project = tomllib.loads(path.read_text("utf-8"))["project"]
            member = Member(path.parent.relative_to(root).as_posix(), project, root)
            found[member.name] = member
    return found


# --- at every commit


def check_licences(members: dict[str, Member]) -> Iterator[str]:
    """Every member has the licence of the root, byte for byte."""
    for member in members.values():
        licence, wanted = member.path / "LICENSE", member.root / "LICENSE"
        if not licence.is_file() or licence.read_bytes() != wanted.read_bytes():
            yield f"{member.folder}/LICENSE is not the LICENSE of the root"


def check_versions_in_code(members: dict[str, Member]) -> Iterator[str]:
    """`__mps_version__`, or without it `__version__`, of a package is that of its distribution."""
    for member in members.values():
        told: dict[str, str] = {}
        for name in ("__init__", "_version"):
            for file in member.path.glob(f"src/*/{name}.py"):
                text = file.read_text("utf-8")
                told.update(re.findall(r'^(__\w+__) = "([^"]+)"', text, re.MULTILINE))
        version = told.get("__mps_version__", told.get("__version__"))
        if version != member.version and not (version is None and member.is_private):
            yield f"{member.folder}: its code says {version}, its pyproject.toml {member.version}"


def check_ranges(members: dict[str, Member]) -> Iterator[str]:
    """Requirements between members admit the versions that lie here."""
    for member in members.values():
        for requirement in member.requirements():
            other = members.get(requirement.name)
            if other is None:
                continue
            if not requirement.specifier.contains(other.version, prereleases=True):
                yield f"{member.name} requires {requirement}, the workspace has {other.version}"
            if other.is_private and not member.is_private:
                yield f"{member.name} requires {other.name}, which is never uploaded"


def sections(changelog: str) -> list[tuple[str, str]]:
    """Headings of the second level with their texts."""
    parts = re.split(r"^## (.+)$", changelog, flags=re.MULTILINE)[1:]
    return [
        (title.strip(), text.strip()) for title, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def check_changelogs(members: dict[str, Member]) -> Iterator[str]:
    """Every member that is uploaded has one: Unreleased, then versions with dates, newest first."""
    for member in members.values():
        if member.is_private:
            continue
        where = f"{member.folder}/CHANGELOG.md"
        path = member.path / "CHANGELOG.md"
        found = sections(path.read_text("utf-8")) if path.is_file() else []
        if not found:
            yield f"{where} has no section"
        for number, (title, text) in enumerate(found):
            if title == UNRELEASED and number == 0:
                continue
            if not HEADING.fullmatch(title):
                yield f"{where}: heading {title!r} is not 'VERSION - YYYY-MM-DD'"
            if not text:
                yield f"{where}: {title} says nothing"


# --- a tag


def check_tag(members: dict[str, Member], tag: str) -> Iterator[str]:
    """The tag names a member, and its version and changelog agree."""
    parts = TAG.fullmatch(tag)
    if parts is None:
        yield f"tag {tag!r} is not '<distribution>-v<version>'"
        return
    member = members.get(parts["name"])
    if member is None:
        yield f"tag {tag!r}: no member is called {parts['name']}; there are {', '.join(members)}"
        return
    if member.is_private:
        yield f"{member.name} is never uploaded"
    if member.version != parts["version"]:
        yield f"tag {tag!r}, but pyproject.toml of {member.name} says {member.version}"
    path = member.path / "CHANGELOG.md"
    found = sections(path.read_text("utf-8")) if path.is_file() else []
    if found and found[0] == (UNRELEASED, ""):  # may stay for what comes next
        found = found[1:]
    heading = HEADING.fullmatch(found[0][0]) if found else None
    if heading is None or heading["version"] != parts["version"]:
        first = found[0][0] if found else "nothing"
        wanted = f"'{parts['version']} - YYYY-MM-DD'"
        yield f"{member.folder}/CHANGELOG.md begins with {first!r}, not with {wanted}"


# --- built files


def source_files(member: Member) -> set[str]:
    """What git has under src/, from there."""
    folder = f"{member.folder}/src/"
    command = ["git", "-c", f"safe.directory={member.root}", "ls-files", "-z", "--", folder]
    run = subprocess.run(command, cwd=member.root, capture_output=True, text=True, check=True)
    return {name.removeprefix(folder) for name in run.stdout.split("\0") if name}


def check_wheel(member: Member, wheel: Path, wanted: set[str]) -> Iterator[str]:
    """A wheel has the files of src/, its metadata, its licence, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        inside = {name for name in names if ".dist-info/" not in name}
        info = {name.partition(".dist-info/")[2]: name for name in names - inside}
        fields = email.message_from_bytes(archive.read(info["METADATA"]))
        licence = archive.read(info["licenses/LICENSE"]) if "licenses/LICENSE" in info else b""
    if not wheel.name.endswith("-py3-none-any.whl"):
        yield f"{wheel.name} is not for every Python and system"
    yield from _compare(wheel.name, inside, wanted)
    allowed = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    for name in sorted(set(info) - allowed):
        yield f"{wheel.name} has .dist-info/{name}"
    if licence != (member.root / "LICENSE").read_bytes():
        yield f"{wheel.name} has not the LICENSE of the root"
    if not any(name.endswith("/py.typed") for name in inside):
        yield f"{wheel.name} has no py.typed"
    if (fields["Name"], fields["Version"]) != (member.name, member.version):
        yield f"{wheel.name} says {fields['Name']} {fields['Version']}"
    promised = {str(Requirement(text)) for text in member.project.get("dependencies", [])}
    told = {str(Requirement(text)) for text in fields.get_all("Requires-Dist", [])}
    for text in sorted(promised - told):
        yield f"{wheel.name} does not require {text}"


def check_sdist(member: Member, sdist: Path, wanted: set[str]) -> Iterator[str]:
    """A source distribution has src/, tests/ and a few pages, and nothing else."""
    with tarfile.open(sdist) as archive:
        names = {item.name.partition("/")[2] for item in archive.getmembers() if item.isfile()}
    source = {name.removeprefix("src/") for name in names if name.startswith("src/")}
    yield from _compare(sdist.name, source, wanted)
    for name in sorted(names):
        if not name.startswith(("src/", "tests/")) and name not in SDIST_FILES:
            yield f"{sdist.name} has {name}"
    for name in sorted((SDIST_FILES - {".gitignore"}) - names):
        yield f"{sdist.name} lacks {name}"


def _compare(title: str, found: set[str], wanted: set[str]) -> Iterator[str]:
    for name in sorted(found - wanted):
        yield f"{title} has {name}, which is no file of src/ in git"
    for name in sorted(wanted - found):
        yield f"{title} lacks {name}"


def check_files(members: dict[str, Member], folder: Path) -> Iterator[str]:
    """All wheels and source distributions in a folder, which must be pairs."""
    built: dict[str, set[str]] = {}
    for path in sorted(folder.glob("[!.]*")):
        stem = path.name.partition("-")[0].replace("_", "-")
        member = members.get(stem)
        if member is None or not path.name.endswith((".whl", ".tar.gz")):
            yield f"{path.name} is not a wheel or source distribution of a member"
            continue
        if member.is_private:
            yield f"{path.name}: {member.name} is never uploaded"
        wanted = source_files(member)
        is_wheel = path.suffix == ".whl"
        built.setdefault(stem, set()).add("wheel" if is_wheel else "source distribution")
        yield from (check_wheel if is_wheel else check_sdist)(member, path, wanted)
    if not built:
        yield f"{folder} has no built files"
    for name, kinds in built.items():
        for kind in sorted({"wheel", "source distribution"} - kinds):
            yield f"{folder} has no {kind} of {name}"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the checks; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="tag that is released, such as mps-pointops-v2.0.0")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="built files to check")
    options = parser.parse_args(argv)
    members = read_members(root)
    problems = [
        *check_licences(members),
        *check_versions_in_code(members),
        *check_ranges(members),
        *check_changelogs(members),
    ]
    if options.tag is not None:
        problems += check_tag(members, options.tag)
    if options.files is not None:
        problems += check_files(members, options.files)
    for problem in problems:
        print(f"check_release: {problem}", file=sys.stderr)
    if problems:
        return 1
    parts = TAG.fullmatch(options.tag or "")
    if parts is not None:
        member = members[parts["name"]]
        print(f"name={member.name}\nversion={member.version}\nfolder={member.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
