"""Each distribution, installed alone from its wheel, does its work on both devices."""

import json
import sys

import pytest
import torch

pytestmark = pytest.mark.slow  # builds wheels and environments

# rows come again after 23: ties
START = "import torch\nx = (torch.arange(192.).view(64, 3) * 7 % 23).to(device)\n"
# what pyg-lib has: the schema and a CPU kernel
PYG_LIB = (
    "import torch\nlibrary = torch.library.Library('pyg', 'DEF')\n"
    "library.define('nearest(Tensor x, Tensor y, Tensor? ptr_x=None, Tensor? ptr_y=None)"
    " -> Tensor')\n"
    "library.impl('nearest', lambda x, y, a=None, b=None: torch.arange(64) % 23, 'CPU')\n"
)
CALLS = {
    "mps-pointops": (
        "mps_pointops",
        "import mps_pointops as p\nresult = p.knn(x[None], x[None], 4)[1][0]",
    ),
    "pointnet2-ops-mps": (
        "pointnet2_ops",
        "import pointnet2_ops as p\nfrom pointnet2_ops import pointnet2_utils\n"
        "result = pointnet2_utils.furthest_point_sample(x[None], 9)[0]",
    ),
    "knn-cuda-mps": (
        "knn_cuda",
        "import knn_cuda as p\nresult = p.KNN(4, transpose_mode=True)(x[None], x[None])[1][0]",
    ),
    "torch-cluster-mps": (
        "torch_cluster",
        "import torch_cluster as p\nresult = p.knn(x, x, 4)[1].view(64, 4)",
    ),
    "pyg-lib-mps-plugin": (
        "pyg_lib_mps_plugin",
        "import pyg_lib_mps_plugin as p\nresult = torch.ops.pyg.nearest(x, x, None, None)",
    ),
}
END = "\nassert result.device.type == device\nprint(p.__file__)\nprint(result.tolist())"


@pytest.mark.parametrize("name", CALLS)
def test_alone(environment, name):
    there = environment()
    import_name, call = CALLS[name]
    there.pip("install", *dict.fromkeys(("mps-pointops", name)))
    # a process starts slowly, so one for both devices
    code = PYG_LIB + "".join(
        f"device = {device!r}\n{START}{call}{END}\n" for device in ("cpu", "mps")
    )
    done = there.run(code, "-W", "error", emulated=sys.platform != "darwin")
    file, on_cpu, same_file, on_mps = done.stdout.splitlines()
    assert file == same_file == str(there.site / import_name / "__init__.py")
    assert json.loads(on_cpu) == json.loads(on_mps)
    assert len(json.loads(on_cpu)) in (9, 64)
    doctor(there, name, import_name)


def doctor(there, name, import_name):
    """Only this name is there, all of it; nothing is wrong."""
    words = ("doctor", "--json", "--install-only")
    code = f"from mps_pointops.__main__ import main; raise SystemExit(main({list(words)}))"
    told = json.loads(there.run(code).stdout)
    assert told["ok"] is True
    states = {f["subject"]: f["what"] for f in told["findings"] if f["area"] == "install"}
    assert states.pop(import_name).startswith(f"{name} ")
    if name != "mps-pointops":
        assert states.pop("mps_pointops").startswith("mps-pointops ")
    assert len(states) >= 3
    assert all(what.startswith("not installed (pip install ") for what in states.values())


def test_torch_is_the_wanted_one(environment, torch_version):
    """Otherwise the tests here would say nothing of it."""
    there = environment()
    version = there.run("import torch; print(torch.__version__)", "-W", "error").stdout.strip()
    if torch_version not in (None, "newest"):
        assert version.partition("+")[0] == torch_version
    if torch_version is None:
        assert version == torch.__version__


def test_doctor_of_the_wheel(environment):
    """Kernels are in the wheel, compile, and give what the references give."""
    there = environment()
    there.pip("install", "mps-pointops")
    for emulated in (False, sys.platform != "darwin"):
        code = "from mps_pointops.__main__ import main; raise SystemExit(main(['doctor']))"
        done = there.run(code, "-W", "error", emulated=emulated)
        assert "all as their references" in done.stdout
        assert done.stdout.splitlines()[-1] == "nothing is wrong"


def test_core_is_missing(environment):
    """A drop-in without it says what is missing."""
    there = environment()
    there.pip("install", "knn-cuda-mps")
    done = there.run("import knn_cuda", check=False)
    assert done.returncode == 1
    assert "No module named 'mps_pointops'" in done.stderr


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_uninstall_leaves_nothing(environment, installer):
    there = environment(installer)
    before = {path.name for path in there.site.iterdir()}
    there.pip("install", "mps-pointops", "pointnet2-ops-mps", "knn-cuda-mps", "torch-cluster-mps")
    there.run("import pointnet2_ops, knn_cuda, torch_cluster", "-W", "error")
    assert {path.name for path in there.site.iterdir()} > before
    names = ("torch-cluster-mps", "knn-cuda-mps", "pointnet2-ops-mps", "mps-pointops")
    there.pip("uninstall", "-y", *names)
    assert {path.name for path in there.site.iterdir()} == before
