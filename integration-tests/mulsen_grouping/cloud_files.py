"""Clouds as MulSen-AD's dataset code makes them: vertices without duplicates, minus their mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SUFFIXES = (".stl", ".npz")


def find(folder: Path, per_class: int) -> list[Path]:
    """Some clouds of every folder that has any, in order of their numbers.

    Args:
        folder: A folder, or one file.
        per_class: At most so many files of a folder; 0: all.
    """
    if folder.is_file():
        return [folder]
    files: dict[Path, list[Path]] = {}
    for path in sorted(folder.rglob("*"), key=lambda p: (p.parent, len(p.stem), p.stem)):
        # not the ground truth, and not what Finder or macOS' archiver leave behind
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file():
            files.setdefault(path.parent, []).append(path)
    return [path for some in files.values() for path in some[: per_class or None]]


def load(path: Path) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Names and points [N, 3] of a file: one cloud of an .stl, one of every array of an .npz."""
    if path.suffix.lower() == ".stl":
        yield path.name, centred(_vertices(path))
        return
    with np.load(path) as arrays:
        for name in arrays.files:
            if arrays[name].ndim == 2 and arrays[name].shape[1] == 3:
                points = arrays[name].astype(np.float64)
                yield f"{path.name}:{name}", centred(without_duplicates(points))


def _vertices(path: Path) -> NDArray[np.float64]:
    try:
        import open3d
    except ImportError as error:
        raise SystemExit(
            f"{path}: .stl files are read by open3d, which does not import here: {error}; "
            "pip install open3d, or save the vertices as an .npz"
        ) from error
    mesh = open3d.io.read_triangle_mesh(str(path)).remove_duplicated_vertices()
    points = np.asarray(mesh.vertices)
    if len(points) == 0:
        raise SystemExit(f"{path}: open3d finds no mesh in it")
    return points


def without_duplicates(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first of equal points, in file order, as open3d keeps them."""
    first = np.unique(points, axis=0, return_index=True)[1]
    return points[np.sort(first)]


def centred(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points minus their mean."""
    return points - np.average(points, axis=0)
