"""What the packages' pages must say; their code is run by `test_readme.py`."""

import re
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
PAGES = sorted(PACKAGES.glob("*/README.md"))


def test_every_page_is_found():
    names = {page.parent.name for page in PAGES}
    assert {"pointnet2-ops-mps", "knn-cuda-mps", "torch-cluster-mps"} <= names
    assert names == {path.parent.name for path in PACKAGES.glob("*/pyproject.toml")}
    index = (PACKAGES / "README.md").read_text()
    assert all(f"({name}/README.md)" in index for name in names)


STAND_INS = [page for page in PAGES if page.parent.name.endswith("-mps")]


@pytest.mark.parametrize("page", STAND_INS, ids=lambda page: page.parent.name)
def test_pages_say_what_a_user_needs(page):
    text = page.read_text()
    name = page.parent.name
    for needed in (f"pip install {name}", "pip uninstall -y", "not affiliated", "## What differs"):
        assert needed in text
    # a page of the package index has no neighbours
    assert [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link] == []
