"""Which distribution the files of an import name came from."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution
from importlib.metadata import distributions as find_distributions
from pathlib import Path
from urllib.parse import unquote, urlparse


@dataclass(frozen=True)
class Place:
    """Where an import name leads.

    Attributes:
        init: Its `__init__.py` or module; None for a folder without one.
        folders: Its folders.
    """

    init: Path | None
    folders: tuple[Path, ...]

    def describe(self) -> str:
        """The file or folder."""
        return str(self.init.parent if self.init else ", ".join(map(str, self.folders)))


def find_place(import_name: str, path: Sequence[str]) -> Place | None:
    """Where an import would look, without importing anything; None: nowhere."""
    spec: ModuleSpec | None = PathFinder.find_spec(import_name, list(path))
    if spec is None:
        return None
    folders = tuple(Path(folder) for folder in spec.submodule_search_locations or ())
    origin = spec.origin if spec.has_location else None
    return Place(Path(origin) if origin else None, folders)


@dataclass(frozen=True)
class Owner:
    """A distribution, compared with the files that an import would take.

    Attributes:
        name: Its name.
        version: Its version.
        editable: Folder of the source that it stands for, if it was installed that way.
        same: Files of the import name that are as it installed them.
        changed: Files that are others now.
        missing: Files that are gone.
        active: Whether the import takes its `__init__.py`; None: it keeps no hashes to tell.
    """

    name: str
    version: str
    editable: Path | None
    same: tuple[str, ...]
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    active: bool | None

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    @property
    def is_stub(self) -> bool:
        """A placeholder without files, made to satisfy a requirement: `3.0.0+mps`."""
        return self.version.partition("+")[2].split(".")[0] == "mps"

    @property
    def is_whole(self) -> bool:
        """Whether no file is missing or another's."""
        return not self.changed and not self.missing

    def count(self) -> str:
        """How many files are as they were installed."""
        total = len(self.same) + len(self.changed) + len(self.missing)
        return f"{len(self.same)} of {total} files of {self.title} are as installed"


def find_distribution(name: str, path: Sequence[str]) -> Distribution | None:
    """The installed distribution of that name that comes first on the path."""
    for found in find_distributions(name=name, path=list(path)):
        # a folder without metadata is a leftover
        if found.read_text("METADATA") or found.read_text("PKG-INFO"):
            return found
    return None


def find_owner(name: str, import_name: str, path: Sequence[str]) -> Owner | None:
    """A distribution and the state of its files under an import name; None: not installed."""
    found = find_distribution(name, path)
    if found is None:
        return None
    place = find_place(import_name, path)
    source = _editable(found)
    if source is not None:
        taken = place is not None and place.init is not None and _is_under(place.init, source)
        return Owner(name, found.version, source, (), (), (), taken)
    same, changed, missing = [], [], []
    active: bool | None = None
    for file in found.files or ():
        if file.parts[0] not in (import_name, f"{import_name}.py") or file.hash is None:
            continue
        where = Path(str(found.locate_file(file)))
        if not where.is_file():
            missing.append(str(file))
        elif digest(where, file.hash.mode) == file.hash.value:
            same.append(str(file))
        else:
            changed.append(str(file))
        if place is not None and place.init is not None and _same_file(where, place.init):
            active = same[-1:] == [str(file)]
    if same or changed or missing:
        active = bool(active)
    return Owner(name, found.version, None, tuple(same), tuple(changed), tuple(missing), active)


def digest(file: Path, mode: str) -> str:
    """Hash of a file as RECORD writes it."""
    found = hashlib.new(mode, file.read_bytes()).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()


def _editable(found: Distribution) -> Path | None:
    text = found.read_text("direct_url.json")
    if not text:
        return None
    told = json.loads(text)
    if not told.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(told["url"]).path))


def _is_under(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())


def _same_file(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()
