"""The import and the distribution around it."""

import os
import subprocess
import sys
from pathlib import Path

import pointnet2_ops

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MEMBER = Path(__file__).parents[1]


def test_import_compiles_nothing_and_touches_no_device():
    code = (
        "import torch\n"
        "import torch.utils.cpp_extension as extension\n"
        "def refuse(*args, **kwargs): raise SystemExit('asked for a compiler or a device')\n"
        "extension.load = torch.mps.compile_shader = torch.mps.synchronize = refuse\n"
        "torch.cuda.init = torch.cuda.is_available = refuse\n"
        "torch.backends.mps.is_available = refuse\n"
        "from pointnet2_ops import pointnet2_utils, pointnet2_modules\n"
        "import pointnet2_ops._ext as _ext\n"
        "pointnet2_modules.PointnetSAModule(mlp=[3, 8], npoint=4, radius=0.5, nsample=4)\n"
        "import pointnet2_ops\n"
        "print(pointnet2_ops._version.__version__)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    env = {**os.environ, "PATH": "/nonexistent", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3.0.0\n"


def test_versions():
    project = tomllib.loads((MEMBER / "pyproject.toml").read_text())["project"]
    assert pointnet2_ops.__mps_version__ == project["version"]
    assert project["import-names"] == ["pointnet2_ops"]
    assert "mps-pointops>=2.0,<3" in project["dependencies"]


def test_nothing_is_compiled():
    files = [path for path in (MEMBER / "src").rglob("*") if path.is_file()]
    kinds = {path.suffix for path in files if "__pycache__" not in path.parts}
    assert kinds == {".py", ".typed"}
