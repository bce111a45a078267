"""Every room has a contract, a reference, a kernel, tests and a benchmark."""

import inspect
import re
from pathlib import Path

import pytest

import mps_pointops
from mps_pointops import flat

ROOT = Path(__file__).parents[2]
ROOMS = ROOT / "shared-kernels" / "src" / "mps_pointops" / "ops"
NAMES = sorted(path.name for path in ROOMS.iterdir() if (path / "__init__.py").exists())
# rooms without a kernel of their own: the room whose operator they call, or why there is none
WITHOUT_KERNEL = {"nearest": "knn", "neighbor_sampler": "CPU only", "three_nn": "knn"}
PUBLIC = [
    (module, name)
    for module in (mps_pointops, flat)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
]


def missing(root: Path, room: str, without_kernel: dict[str, str]) -> list[str]:
    """What a room lacks, as sentences."""
    place = root / "shared-kernels" / "src" / "mps_pointops" / "ops" / room
    needed = [
        place / "README.md",
        place / f"{room}.py",
        place / "reference.py",
        root / "bench" / room / f"bench_{room}.py",
    ]
    if room not in without_kernel:
        needed += [place / "mps.py", place / f"{room}.metal"]
    found = [f"no {path.relative_to(root)}" for path in needed if not path.exists()]
    tests = root / "shared-kernels" / "tests" / room
    if not any("def test_" in path.read_text() for path in tests.glob("test_*.py")):
        found.append(f"no test in {tests.relative_to(root)}")
    contract = place / "README.md"
    if contract.exists() and "\n## Definition\n" not in contract.read_text():
        found.append(f"{contract.relative_to(root)} has no definition")
    reference = place / "reference.py"
    if reference.exists() and not re.search(
        r'^def [a-z]\w*\(.*?"""', reference.read_text(), re.S | re.M
    ):
        found.append(f"{reference.relative_to(root)} has no public function with a docstring")
    listed = place.parent / "README.md"
    if not listed.exists() or f"]({room}/README.md)" not in listed.read_text():
        found.append(f"{listed.relative_to(root)} does not list it")
    return found


@pytest.mark.parametrize("room", NAMES)
def test_a_room_is_furnished(room: str) -> None:
    assert missing(ROOT, room, WITHOUT_KERNEL) == []


def test_rooms_were_found() -> None:
    assert {"fps", "knn", "ball_query", "gather"} <= set(NAMES)
    assert set(WITHOUT_KERNEL) <= set(NAMES)


@pytest.mark.parametrize("room", [r for r, why in WITHOUT_KERNEL.items() if why in NAMES])
def test_a_room_without_a_kernel_calls_another(room: str) -> None:
    assert f"mps_pointops.ops.{WITHOUT_KERNEL[room]}" in (ROOMS / room / f"{room}.py").read_text()


def _furnish(root: Path) -> list[Path]:
    place = root / "shared-kernels" / "src" / "mps_pointops" / "ops" / "thing"
    texts = {
        place / "README.md": "# Thing\n\n## Definition\n\nIt is.\n",
        place / "thing.py": "",
        place / "reference.py": 'def thing(x):\n    """What it means."""\n',
        place / "mps.py": "",
        place / "thing.metal": "",
        place.parent / "README.md": "[`thing`](thing/README.md)",
        root / "bench" / "thing" / "bench_thing.py": "",
        root / "shared-kernels" / "tests" / "thing" / "test_thing.py": "def test_it(): ...\n",
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(texts)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    files = _furnish(tmp_path)
    assert missing(tmp_path, "thing", {}) == []
    for path in files:
        text = path.read_text()
        path.unlink()
        assert len(missing(tmp_path, "thing", {})) == 1, path
        path.write_text(text)
    files[0].write_text("# Thing\n")
    files[2].write_text("def thing(x): ...\n")
    assert len(missing(tmp_path, "thing", {})) == 2


@pytest.mark.parametrize(
    ("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value)
)
def test_docstrings_have_their_headings(module: object, name: str) -> None:
    text = inspect.getdoc(getattr(module, name)) or ""
    for heading in ("Args:", "Returns:", "Raises:"):
        assert re.search(rf"^{heading}$", text, re.M), f"{name} has no {heading}"
    arguments = inspect.signature(getattr(module, name)).parameters
    for argument in arguments:
        assert re.search(rf"^    .*\b{argument}\b.*:", text, re.M), (
            f"{name} does not tell {argument}"
        )
    returns = text.split("Returns:")[1].split("Raises:")[0]
    assert re.search(r"\[[^\]]*\]", text), f"{name} names no shape"
    assert re.search(r"int64|int32|float32|dtype", returns), (
        f"{name} does not tell what is returned"
    )
    assert "gradient" in text.lower(), f"{name} says nothing of a gradient"
    contract = re.search(r"`ops/(\w+)/README\.md`", text)
    assert contract, f"{name} names no contract"
    assert (ROOMS / contract[1] / "README.md").exists()
