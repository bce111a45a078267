from __future__ import annotations

import re
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mps_pointops.demo.errors import DemoError
from mps_pointops.demo.read import read_cloud

ROWS = np.array([[0.5, 1.25, -3.0], [4.0, 5.5, 6.0], [0.5, 1.25, -3.0]], dtype=np.float32)


def write_ply(path: Path, rows: np.ndarray, binary: bool, kind: str = "float") -> None:
    faces = len(rows) >= 3
    lines = [
        "ply",
        f"format {'binary_little_endian' if binary else 'ascii'} 1.0",
        f"element vertex {len(rows)}",
        *(f"property {kind} {axis}" for axis in "xyz"),
        "property uchar red",
        f"element face {int(faces)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    if binary:
        code = "<3fB" if kind == "float" else "<3dB"
        body = b"".join(struct.pack(code, *row, 7) for row in rows)
        body += struct.pack("<B3i", 3, 2, 1, 0) if faces else b""
    else:
        text = "".join(" ".join(repr(float(c)) for c in row) + " 7\n" for row in rows)
        body = (text + ("3 2 1 0\n" if faces else "")).encode()
    path.write_bytes("\n".join(lines).encode() + b"\n" + body)


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    got = read_cloud(tmp_path / "a.npy")
    assert got.points.dtype == np.float32
    assert np.array_equal(got.points, ROWS)
    assert got.notes == ()


def test_npy_of_integers_and_more_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(20).reshape(4, 5))
    got = read_cloud(tmp_path / "a.npy")
    assert np.array_equal(got.points, np.arange(20).reshape(4, 5)[:, :3])
    assert got.points.flags.c_contiguous
    assert "first 3 of 5 columns" in got.notes[0]


def test_suffix_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "A.XYZ").write_text("1 2 3\n")
    assert np.array_equal(read_cloud(tmp_path / "A.XYZ").points, [[1, 2, 3]])


def test_npz_prefers_points(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", other=np.zeros((9, 3)), points=ROWS)
    got = read_cloud(tmp_path / "a.npz")
    assert np.array_equal(got.points, ROWS)
    assert got.source == "array 'points', float32"


def test_npz_else_takes_the_largest(tmp_path: Path) -> None:
    objects = np.array([[None] * 3] * 50, dtype=object)
    arrays = {"small": ROWS[:2], "large": ROWS, "labels": np.zeros(99), "wide": np.zeros((50, 4))}
    np.savez(tmp_path / "a.npz", objects=objects, names=np.array([["a"] * 3] * 9), **arrays)
    got = read_cloud(tmp_path / "a.npz")
    assert "'large'" in got.source
    assert np.array_equal(got.points, ROWS)


def test_npz_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", points=ROWS, other=ROWS[:1])
    got = read_cloud(tmp_path / "a.npz", "other")
    assert "'other'" in got.source
    assert np.array_equal(got.points, ROWS[:1])


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_ply_keeps_file_order_and_duplicates(tmp_path: Path, binary: bool, kind: str) -> None:
    write_ply(tmp_path / "a.ply", ROWS, binary, kind)
    got = read_cloud(tmp_path / "a.ply")
    assert np.array_equal(got.points, ROWS)
    assert got.source == "vertices"


def test_ply_without_faces(tmp_path: Path) -> None:
    write_ply(tmp_path / "a.ply", ROWS[:2], binary=True)
    assert np.array_equal(read_cloud(tmp_path / "a.ply").points, ROWS[:2])


def test_ply_survey_coordinates_keep_their_digits(tmp_path: Path) -> None:
    rows = np.array([[636001.27, 848935.2, 406.26], [636001.28, 848935.21, 406.27]])
    write_ply(tmp_path / "a.ply", rows, binary=True, kind="double")
    got = read_cloud(tmp_path / "a.ply")
    assert np.allclose(np.diff(got.points, axis=0), 0.01, atol=1e-8)


def test_xyz(tmp_path: Path) -> None:
    text = "\ufeff# a cloud\n\n1 2.5 -3e1 0.7 red\n  4,5 , 6\n7\t8\t9 # comment\n10,11,12,\n"
    (tmp_path / "a.xyz").write_text(text, encoding="utf-8")
    wanted = [[1, 2.5, -30], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    assert np.array_equal(read_cloud(tmp_path / "a.xyz").points, wanted)


def test_rows_that_are_not_finite_are_dropped(tmp_path: Path) -> None:
    rows = np.array([[1, 2, 3], [np.nan, 0, 0], [4, 5, 6], [0, np.inf, 0], [1e300, 0, 0]])
    np.save(tmp_path / "a.npy", rows)
    got = read_cloud(tmp_path / "a.npy")
    assert np.array_equal(got.points, [[1, 2, 3], [4, 5, 6]])
    assert any("3 rows" in note for note in got.notes)


def test_survey_coordinates_are_centred_before_the_cast(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    offset = np.array([636590.0, 849216.0, 463.0])
    near = rng.uniform(-50, 50, (200, 3)).round(2)
    np.save(tmp_path / "a.npy", near + offset)
    got = read_cloud(tmp_path / "a.npy")
    error = np.ptp(got.points - near, axis=0)
    assert error.max() < 1e-5
    # what a plain cast would have lost
    assert np.ptp((near + offset).astype(np.float32) - offset - near, axis=0).max() > 1e-2
    assert "centred in float64" in got.notes[0]


def test_a_nan_does_not_hinder_centring(tmp_path: Path) -> None:
    rows = np.array([[1e6, 1e6, 1e6], [1e6 + 1, 1e6, 1e6], [np.nan, 0, 0]])
    np.save(tmp_path / "a.npy", rows)
    assert np.array_equal(read_cloud(tmp_path / "a.npy").points, [[-0.5, 0, 0], [0.5, 0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clouds_near_the_origin_and_float32_are_left_alone(tmp_path: Path, dtype: Any) -> None:
    rows = ROWS.astype(dtype) + (dtype(1e6) if dtype is np.float32 else 0)
    np.save(tmp_path / "a.npy", rows)
    got = read_cloud(tmp_path / "a.npy")
    assert np.array_equal(got.points, rows.astype(np.float32))
    assert got.notes == ()


def through(path: Path, save: Any) -> None:
    """Save without NumPy's own suffix."""
    with path.open("wb") as file:
        save(file, ROWS)


def empty_archive(path: Path) -> None:
    zipfile.ZipFile(path, "w").close()


def damaged_archive(path: Path) -> None:
    np.savez(path, points=np.arange(3000.0).reshape(-1, 3))
    data = bytearray(path.read_bytes())
    data[2000:2100] = bytes(100)  # checksum of the member no longer fits
    path.write_bytes(bytes(data))


BAD = {
    "a.las": (lambda path: path.write_bytes(b"LASF"), "unknown suffix '.las'"),
    "none": (lambda path: path.write_bytes(b"x"), "unknown suffix ''"),
    "folder.npy": (lambda path: path.mkdir(), "not a file"),
    "empty.npy": (lambda path: path.write_bytes(b""), "the file is empty"),
    "empty.ply": (lambda path: path.write_bytes(b""), "the file is empty"),
    "text.npy": (lambda path: path.write_text("1 2 3"), "not a readable .npy file"),
    "text.npz": (lambda path: path.write_text("1 2 3"), "not a readable .npz file"),
    "cut.npy": (
        lambda path: (np.save(path, ROWS), path.write_bytes(path.read_bytes()[:-5])),
        "not a readable .npy file",
    ),
    "flat.npy": (lambda path: np.save(path, np.zeros(9)), r"\(N, 3\).* got shape \(9,\)"),
    "two.npy": (lambda path: np.save(path, np.zeros((9, 2))), r"\(N, 3\).* got shape \(9, 2\)"),
    "no.npy": (lambda path: np.save(path, np.zeros((0, 3))), "there are no points"),
    "nan.npy": (lambda path: np.save(path, np.full((4, 3), np.nan)), "no row has finite"),
    "words.npy": (lambda path: np.save(path, np.array([["a", "b", "c"]])), "expected real numbers"),
    "bool.npy": (lambda path: np.save(path, np.ones((4, 3), bool)), "expected real numbers"),
    "complex.npy": (lambda path: np.save(path, np.ones((4, 3), complex)), "expected real numbers"),
    "objects.npy": (
        lambda path: np.save(path, np.array([[None] * 3], dtype=object)),
        "not a readable .npy file: Object arrays",
    ),
    "zip.npy": (lambda path: through(path, np.savez), "rename it to .npz"),
    "bare.npz": (lambda path: through(path, np.save), "rename it to .npy"),
    "hollow.npz": (empty_archive, "no arrays"),
    "shapes.npz": (
        lambda path: np.savez(path, labels=np.zeros(7)),
        r"no array of shape \(N, 3\); there are: labels \(7,\)",
    ),
    "damaged.npz": (damaged_archive, "not a readable .npz file"),
    "objects.npz": (
        lambda path: np.savez(path, points=np.array([[None] * 3], dtype=object)),
        "not a readable .npz file: Object arrays",
    ),
    "text.ply": (lambda path: path.write_text("1 2 3\n"), "not a readable .ply file"),
    "cut.ply": (
        lambda path: (
            write_ply(path, ROWS, binary=True),
            path.write_bytes(path.read_bytes()[:-30]),
        ),
        "not a readable .ply file",
    ),
    "no.ply": (lambda path: write_ply(path, ROWS[:0], binary=False), "no points|not a readable"),
    "words.xyz": (lambda path: path.write_text("1 2 3\nx y z\n"), "line 2: 'x' is not a number"),
    "two.xyz": (lambda path: path.write_text("1 2\n"), "line 1: expected at least 3 columns"),
    "gap.xyz": (lambda path: path.write_text("1,,2,3\n"), "line 1: '' is not a number"),
    "remarks.xyz": (lambda path: path.write_text("# nothing\n\n"), "there are no points"),
    "binary.xyz": (lambda path: path.write_bytes(b"1 2 3\n\xff\xfe"), "not a text file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_have_one_clear_line(tmp_path: Path, name: str) -> None:
    write, message = BAD[name]
    path = tmp_path / name
    write(path)
    with pytest.raises(DemoError, match=message) as caught:
        read_cloud(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="no such file"):
        read_cloud(tmp_path / "a.npy")


def test_unknown_array_lists_what_there_is(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", points=ROWS, colours=ROWS)
    with pytest.raises(DemoError, match="no array 'nope'; there are: points, colours"):
        read_cloud(tmp_path / "a.npz", "nope")


def test_array_is_for_npz_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    with pytest.raises(DemoError, match="--array"):
        read_cloud(tmp_path / "a.npy", "points")


def test_ply_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ply(tmp_path / "a.ply", ROWS, binary=False)
    monkeypatch.setitem(sys.modules, "trimesh", None)  # its import fails
    with pytest.raises(DemoError, match=re.escape('pip install "mps-pointops[demo]"')):
        read_cloud(tmp_path / "a.ply")
