"""The script of the gallery runs, and the page shows what it draws."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/gallery/README.md"


@pytest.fixture(scope="module")
def gallery():
    if not PAGE.exists():
        pytest.skip("the pages are part of the source checkout alone")
    return runpy.run_path(str(PAGE.with_name("make_gallery.py")), run_name="gallery")


@pytest.mark.parametrize("name", ["ball_query", "three_nn", "grid_cluster", "random_walk"])
def test_pictures_are_drawn(gallery, tmp_path, name):
    assert gallery["main"](["--out", str(tmp_path), "--only", name]) == 0
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_all_pictures(gallery, tmp_path):
    assert gallery["main"](["--out", str(tmp_path)]) == 0
    drawn = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(drawn) == {f"{name}.png" for name in gallery["PICTURES"]}
    assert max(drawn.values()) < 60_000


def test_the_page_shows_every_picture(gallery):
    text = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]+\]\((\w+)\.png\)", text)
    assert shown == list(gallery["PICTURES"])
    files = {path.stem: path.stat().st_size for path in PAGE.parent.glob("*.png")}
    assert set(files) == set(shown)
    assert max(files.values()) < 60_000
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


def test_every_room_with_a_picture_to_draw_has_one(gallery):
    rooms = {path.parent.name for path in (PAGE.parents[2] / "src/mps_pointops/ops").glob("*/*.md")}
    without = {"inverse_index", "neighbor_sampler"}  # an internal one; one without points
    assert rooms - set(gallery["PICTURES"]) == without
