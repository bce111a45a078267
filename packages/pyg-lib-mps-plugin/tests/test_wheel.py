"""The built wheel in an environment that has torch and nothing of this project."""

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "packages" / "pyg-lib-mps-plugin" / "src"
OURS = ("mps", "pointnet2", "knn_cuda", "torch_cluster", "pyg_lib", "__pycache__")

pytestmark = [
    pytest.mark.slow,  # fetches the build back end
    pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on the path"),
]


def run(*command, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**env, **environment},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("mps-pointops", "pyg-lib-mps-plugin"):
        run("uv", "build", "--wheel", "--package", name, "--out-dir", folder)
    return sorted(folder.glob("*.whl"))


@pytest.fixture
def clean(tmp_path):
    """The interpreter of a new environment with what torch needs, as links."""
    folder = tmp_path / "venv"
    run("uv", "venv", "--python", sys.executable, folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.suffix != ".pth" and not any(word in entry.name for word in OURS):
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


HAS = (
    "import torch; has = torch._C._dispatch_has_kernel_for_dispatch_key; "
    "library = torch.library.Library('pyg', 'DEF'); "
    "library.define('fps(Tensor src, Tensor ptr, float ratio=0.5, bool random_start=True)"
    " -> Tensor'); print(has('pyg::fps', 'MPS'))"
)


def test_what_the_wheel_holds(wheels):
    (wheel,) = (w for w in wheels if w.name.startswith("pyg_lib_mps_plugin"))
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = {
            n.rpartition("/")[2]: archive.read(n).decode() for n in names if ".dist-info/" in n
        }
    files = [path for path in SOURCE.rglob("*") if path.is_file()]
    wanted = {str(p.relative_to(SOURCE)) for p in files if "__pycache__" not in p.parts}
    assert {n for n in names if ".dist-info/" not in n} == wanted
    assert {"pyg_lib_mps_plugin/py.typed", "pyg_lib_mps_plugin/_ops/reduce.metal"} <= wanted
    fields = email.message_from_string(texts["METADATA"])
    assert sorted(fields.get_all("Requires-Dist")) == ["mps-pointops<3,>=2.0", "torch>=2.7"]
    assert "unofficial, not affiliated" in fields["Summary"]
    assert texts["entry_points.txt"].split() == [
        "[torch.backends]",
        "pyg_lib_mps_plugin",
        "=",
        "pyg_lib_mps_plugin:_autoload",
    ]


def test_import_torch_alone_registers_and_a_broken_plug_in_does_no_harm(clean, wheels):
    assert run(clean, "-W", "error", "-c", HAS) == "False"
    run("uv", "pip", "install", "--offline", "--no-deps", "--python", clean, *wheels)
    assert run(clean, "-W", "error", "-c", HAS) == "True"
    assert "kernels registered: " in run(clean, "-m", "pyg_lib_mps_plugin")
    assert run(clean, "-c", HAS, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False"
    if sys.platform == "linux":
        use = (
            "import mps_emulator; mps_emulator.install(strict=True); import torch; "
            "library = torch.library.Library('pyg', 'DEF'); "
            "library.define('scatter_sum(Tensor src, Tensor index, int dim=-1, Tensor? out=None, "
            "int? dim_size=None) -> Tensor'); "
            "i = torch.tensor([0, 2, 2], device='mps'); "
            "print(torch.ops.pyg.scatter_sum(i * 0.5, i).tolist())"
        )
        emulator = str(ROOT / "shared-kernels" / "emulator" / "src")
        assert run(clean, "-W", "error", "-c", use, PYTHONPATH=emulator) == "[0.0, 0.0, 2.0]"

    (package,) = clean.parents[1].glob("lib/python*/site-packages/pyg_lib_mps_plugin")
    (package / "_registration.py").write_text("def register(:")
    broken = "import torch, pyg_lib_mps_plugin as p; print(torch.ones(2).sum().item(), p._failure)"
    assert run(clean, "-W", "error", "-c", broken).startswith("2.0 invalid syntax")
    shutil.rmtree(package / "_ops")
    assert run(clean, "-W", "error", "-c", broken).startswith("2.0 invalid syntax")
