"""The code that the READMEs show runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mps_emulator

ROOT = Path(__file__).parents[1]
PAGES = sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("packages/*/README.md"))
READMES = ("README.md", "shared-kernels/README.md", *PAGES)


def tracked(pattern):
    """Files that git knows, from the root."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--", pattern]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in run.stdout.split("\0") if name]


def _blocks():
    for name in READMES:
        text = (ROOT / name).read_text()
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            # 100,000 points take a minute in software
            marks = [pytest.mark.slow] if "100_000" in block else []
            yield pytest.param(block, id=f"{name}-{number}", marks=marks)


@pytest.mark.parametrize("code", list(_blocks()))
def test_python_blocks(code, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(code)
    emulated = ["-m", "mps_emulator"] if mps_emulator.is_installed() else []
    command = [sys.executable, *emulated, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_every_readme_has_a_block():
    ids = [block.id for block in _blocks()]
    assert len(ids) >= 3
    assert {name.rsplit("-", 1)[0] for name in ids} == set(READMES)


def _links(text):
    """Targets of the links and pictures of a page, outside its code."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def _anchors(page):
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("name", tracked("*.md"))
def test_links_lead_somewhere(name):
    page = ROOT / name
    for link in _links(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("name", [n for n in tracked("*.md") if "/src/" in n])
def test_installed_pages_have_the_neighbours_that_they_link_to(name):
    package = ROOT.joinpath(*Path(name).parts[: Path(name).parts.index("src") + 2])
    links = [link for link in _links((ROOT / name).read_text()) if "://" not in link]
    targets = [(ROOT / name).parent / link.partition("#")[0] for link in links]
    assert [str(t) for t in targets if package not in t.resolve().parents] == []


def test_pages_and_their_links_are_found():
    pages = tracked("*.md")
    assert len([name for name in pages if "/src/" in name]) >= 14
    assert sum(len(_links((ROOT / name).read_text())) for name in pages) > 150


@pytest.mark.parametrize("name", ["shared-kernels/README.md", *PAGES])
def test_pages_of_the_package_index_have_no_neighbours(name):
    assert [link for link in _links((ROOT / name).read_text()) if "://" not in link] == []


def test_the_contracts_that_the_page_names_are_installed():
    package = ROOT / "shared-kernels/src/mps_pointops"
    text = (ROOT / "shared-kernels/README.md").read_text()
    named = re.findall(r"`([\w/]+/README\.md)`", text)
    assert len(named) >= 7
    assert [name for name in named if not (package / name).is_file()] == []


def test_every_room_is_in_the_table():
    text = (ROOT / "README.md").read_text()
    rooms = ROOT / "shared-kernels/src/mps_pointops/ops"
    for room in sorted(path.parent for path in rooms.glob("*/*.metal")):
        for file in ("README.md", "reference.py", f"{room.name}.metal"):
            assert f"({(room / file).relative_to(ROOT)})" in text
        assert f"(shared-kernels/tests/{room.name})" in text
        assert f"(bench/{room.name}/bench_{room.name}.py)" in text
