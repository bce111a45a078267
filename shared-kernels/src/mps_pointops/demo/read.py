"""Reading points [N, 3] from a file, with one clear message for every kind of bad file."""

from __future__ import annotations

import zipfile
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mps_pointops.demo.errors import DemoError, missing_extra

# float64 and text: the centre is taken off when the cloud lies further from the origin than this
# many times its own size, which is when a plain cast would cost it visible bits
_FAR = 4.0


@dataclass(frozen=True)
class Cloud:
    """A cloud that is ready for the operators.

    Attributes:
        points: Coordinates [N, 3], float32, N >= 1, all finite.
        source: Which part of the file they are.
        notes: What was done to them.
    """

    points: NDArray[np.float32]
    source: str
    notes: tuple[str, ...]


def read_cloud(path: Path, name: str | None = None) -> Cloud:
    """Read a cloud.

    Args:
        path: An .npz, .npy, .ply or .xyz file.
        name: Array in an .npz; None: `points`, else the largest of shape (N, 3).

    Raises:
        DemoError: the file is missing, of another kind, damaged, or has no points.
    """
    readers = {".npz": _read_npz, ".npy": _read_npy, ".ply": _read_ply, ".xyz": _read_xyz}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise DemoError(f"{path}: unknown suffix {suffix!r}, expected one of {', '.join(readers)}")
    if name is not None and suffix != ".npz":
        raise DemoError(f"--array names an array of an .npz file, but the file is {path}")
    if not path.exists():
        raise DemoError(f"{path}: there is no such file")
    if not path.is_file():
        raise DemoError(f"{path}: not a file")
    try:
        if path.stat().st_size == 0:
            raise DemoError(f"{path}: the file is empty")
        values, source = readers[suffix](path, name)
    except OSError as error:
        raise DemoError(f"{path}: cannot be read: {error.strerror or error}") from error
    return _prepare(path, values, source)


def _prepare(path: Path, values: NDArray[Any], source: str) -> Cloud:
    """Check shape and dtype, drop rows that are not finite, centre, cast."""
    if values.dtype.kind not in "fiu":
        raise DemoError(f"{path}: expected real numbers, got {values.dtype} ({source})")
    if values.ndim != 2 or values.shape[1] < 3:
        wanted = "an array of shape (N, 3) or with more columns"
        raise DemoError(f"{path}: expected {wanted}, got shape {values.shape} ({source})")
    if values.shape[0] == 0:
        raise DemoError(f"{path}: there are no points ({source})")
    notes: list[str] = []
    if values.shape[1] > 3:
        notes.append(f"the first 3 of {values.shape[1]} columns are the coordinates")
        values = values[:, :3]
    exact = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    wide = values.astype(np.float64)
    finite = np.isfinite(wide).all(axis=1)
    if not exact and finite.any():
        low, high = wide[finite].min(axis=0), wide[finite].max(axis=0)
        if max(np.abs(low).max(), np.abs(high).max()) > _FAR * (high - low).max() > 0:
            centre = (low + high) / 2
            wide -= centre
            shown = ", ".join(f"{c:.10g}" for c in centre)
            notes.append(f"centred in float64 before the cast to float32: ({shown}) taken off")
    with np.errstate(over="ignore"):
        points = wide.astype(np.float32)
    # again after the cast: what float32 cannot hold is infinite now
    finite = np.isfinite(points).all(axis=1)
    if not finite.all():
        dropped = int(np.count_nonzero(~finite))
        notes.append(f"{dropped} rows with a coordinate that is not a finite float32 were dropped")
        points = points[finite]
    if len(points) == 0:
        raise DemoError(f"{path}: no row has finite coordinates ({source})")
    return Cloud(np.ascontiguousarray(points), source, tuple(notes))


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DemoError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return DemoError(f"{path}: not a readable {path.suffix.lower()} file: {reason}")


def _read_npy(path: Path, _: str | None) -> tuple[NDArray[Any], str]:
    values = _load(path)
    if not isinstance(values, np.ndarray):
        values.close()
        raise DemoError(f"{path}: holds several arrays; rename it to .npz")
    return values, f"one array, {values.dtype}"


def _read_npz(path: Path, name: str | None) -> tuple[NDArray[Any], str]:
    archive = _load(path)
    if isinstance(archive, np.ndarray):
        raise DemoError(f"{path}: holds one bare array; rename it to .npy")
    with archive:
        if not archive.files:
            raise DemoError(f"{path}: the archive has no arrays")
        if name is not None and name not in archive.files:
            there = ", ".join(archive.files)
            raise DemoError(f"{path}: no array {name!r}; there are: {there}")
        try:
            # numbers are checked later, Python objects are refused here
            if name is None:
                name = "points" if "points" in archive.files else _largest(path, archive)
            values = archive[name]
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise _damaged(path, error) from error
    return values, f"array {name!r}, {values.dtype}"


def _largest(path: Path, archive: Any) -> str:
    """The name of the largest numeric array of shape (N, 3)."""
    shapes: dict[str, tuple[int, ...]] = {}
    best: str | None = None
    rows = -1
    for name in archive.files:
        try:
            values = archive[name]
        except ValueError:  # Python objects; another array may do
            continue
        shapes[name] = values.shape
        fits = values.ndim == 2 and values.shape[1] == 3 and values.dtype.kind in "fiu"
        if fits and values.shape[0] > rows:
            best, rows = name, values.shape[0]
    if best is None:
        there = ", ".join(f"{name} {shapes.get(name, 'of objects')}" for name in archive.files)
        raise DemoError(f"{path}: no array of shape (N, 3); there are: {there}; choose by --array")
    return best


def _read_ply(path: Path, _: str | None) -> tuple[NDArray[Any], str]:
    try:
        import trimesh
    except ImportError as error:
        raise missing_extra("trimesh", "reading .ply") from error
    try:
        # as it lies in the file: no merging, no reordering, no textures
        loaded: Any = trimesh.load(
            str(path), file_type="ply", process=False, fix_texture=False, skip_materials=True
        )
        vertices = np.asarray(loaded.vertices)
    except OSError:
        raise
    except Exception as error:  # a damaged file surfaces as nearly any exception there
        raise _damaged(path, error) from error
    return vertices, "vertices"


def _read_xyz(path: Path, _: str | None) -> tuple[NDArray[Any], str]:
    values = array("d")
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    values.extend(_coordinates(line))
                except ValueError as error:
                    raise DemoError(f"{path}: line {number}: {error}") from None
    except UnicodeDecodeError as error:
        raise DemoError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from error
    return np.frombuffer(values, dtype=np.float64).reshape(-1, 3), "text"


def _coordinates(line: str) -> tuple[float, ...]:
    """The three numbers a line begins with; none for a line without content."""
    content = line.partition("#")[0].strip()
    if not content:
        return ()
    # a gap between commas is a missing number, a gap of spaces is nothing
    parts = content.rstrip(",").split(",") if "," in content else [content]
    fields = [field for part in parts for field in part.split() or [""]][:3]
    if len(fields) < 3:
        raise ValueError(f"expected at least 3 columns, got {content[:60]!r}")
    return tuple(map(_number, fields))


def _number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        raise ValueError(f"{field[:60]!r} is not a number") from None
