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


@pytest.mark.parametrize("name", ["README.md", "packages/README.md"])
def test_links_lead_somewhere(name):
    readme = ROOT / name
    links = re.findall(r"\]\(([^)#:]+)\)", readme.read_text())
    missing = [link for link in links if not (readme.parent / link).exists()]
    assert not missing
    assert links


def test_the_page_of_the_package_index():
    """It has no neighbours there; the contracts that it names are installed."""
    text = (ROOT / "shared-kernels/README.md").read_text()
    assert [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link] == []
    package = ROOT / "shared-kernels/src/mps_pointops"
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
