"""What the wheels of the drop-ins and the plug-in hold."""

import email
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = {
    "pointnet2-ops-mps": "pointnet2_ops",
    "knn-cuda-mps": "knn_cuda",
    "torch-cluster-mps": "torch_cluster",
    "pyg-lib-mps-plugin": "pyg_lib_mps_plugin",
}


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on the path")
@pytest.mark.slow  # fetches the build back end
@pytest.mark.parametrize("name", WHEELS)
def test_wheel(name, tmp_path):
    command = ["uv", "build", "--package", name, "--out-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(metadata))
    source = ROOT / "packages" / name / "src"
    files = [path for path in source.rglob("*") if path.is_file()]
    wanted = {str(p.relative_to(source)) for p in files if "__pycache__" not in p.parts}
    assert {n for n in names if ".dist-info/" not in n} == wanted
    assert f"{WHEELS[name]}/py.typed" in wanted
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)
    assert fields["Import-Name"] == WHEELS[name]
    assert sorted(fields.get_all("Requires-Dist")) == ["mps-pointops<3,>=2.0", "torch>=2.7"]
    assert "unofficial, not affiliated" in fields["Summary"]
    assert fields.get_payload().startswith(f"# {name}")
