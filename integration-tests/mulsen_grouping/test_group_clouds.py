"""Grouping of the project's scans by the script, and what its README says of the detector."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "integration-tests/golden/cuda_answers.npz"
DRAGON = ROOT / "integration-tests/data/dragon.npz"
LIDAR = ROOT / "integration-tests/data/autzen_lidar.npz"
# what a class of MulSen-AD's shape asks for, and no more
CODE = """
import torch
from knn_cuda import KNN
from pointnet2_ops import pointnet2_utils


class Group(torch.nn.Module):
    def __init__(self, num_group, group_size):
        super().__init__()
        self.number, self.knn = num_group, KNN(k=group_size, transpose_mode=True)

    def forward(self, xyz):
        rows = xyz.contiguous()
        picks = pointnet2_utils.furthest_point_sample(rows, self.number)
        centre = rows[:, picks[0].long()]
        index = self.knn(xyz, centre)[1]{fault}
        return rows[0][index[0]][None] - centre[:, :, None], centre, index, picks
"""
# the lines of the detector that the edits are about
DETECTOR = {
    "feature_extractors/features.py": (
        'self.device = "cuda" if torch.cuda.is_available() else "cpu"\n'
    ),
    "dataset.py": "import numpy as np\n" + "pointcloud = pointcloud.T\n\n" * 2,
    "models/models.py": (
        "make(model_name=rgb_backbone_name, pretrained=False,"
        'checkpoint_path="/home/someone/pytorch_model.bin",**kwargs)\n'
        "ckpt = torch.load(bert_ckpt_path)\n" * 2
    ),
}


@pytest.fixture
def parts(tmp_path):
    """Small parts of the scans: every fourth vertex of the dragon, a patch of the LiDAR tile."""
    dragon = np.load(DRAGON)["points_5k"][::4]
    lidar = np.load(LIDAR)["points"][:1100]
    twice = np.concatenate([dragon, dragon[:50]])
    folder = tmp_path / "clouds"
    folder.mkdir()
    np.savez(folder / "scans.npz", dragon=twice, lidar=lidar, colours=np.ones(4))
    (folder / ".DS_Store").write_bytes(b"\x00")
    return folder


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def fresh_modules(monkeypatch):
    """Forgets `models`, which another checkout may have brought."""
    for name in ("models", "models.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("models", "models.models"):
        sys.modules.pop(name, None)


def test_scans(script, device, parts, tmp_path):
    found = tmp_path / "found.json"
    arguments = ["--quick", "--data", str(parts), "--device", device, "--json", str(found)]
    repeats = "1" if device == "cpu" else "0"
    assert script("group_clouds").main([*arguments, "--repeats", repeats]) == 0
    written = json.loads(found.read_text())
    assert written["group"] == "group.Group"
    assert written["device"].startswith(device)
    names = [(cloud["cloud"], cloud["points"], cloud["passed"]) for cloud in written["clouds"]]
    assert names == [("scans.npz:dragon", 1302, True), ("scans.npz:lidar", 1100, True)]
    assert all(cloud["repeated centres"] == 0 for cloud in written["clouds"])
    timed = [cloud.get("milliseconds", {}) for cloud in written["clouds"]]
    assert all(("group" in times) == (device == "cpu") for times in timed)


@pytest.mark.usefixtures("fresh_modules")
@pytest.mark.parametrize(("fault", "status"), [("", 0), (".flip(2)", 1)])
def test_code_of_a_checkout(script, parts, tmp_path, capsys, monkeypatch, fault, status):
    """It is that code which runs, and a fault in it is found."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    code = write(tmp_path / "checkout", {"models/models.py": CODE.replace("{fault}", fault)})
    arguments = ["--quick", "--repeats", "0", "--device", "cpu", "--data", str(parts)]
    assert script("group_clouds").main([*arguments, "--mulsen-code", str(code)]) == status
    out = capsys.readouterr().out
    assert out.startswith("models.models.Group on cpu")
    assert ("wrong neighbour indices" in out) == bool(status)


def test_a_wrong_path_is_refused(script, tmp_path):
    with pytest.raises(SystemExit, match=r"no models/models\.py"):
        script("group_clouds").main(["--device", "cpu", "--mulsen-code", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"no \.stl or \.npz cloud"):
        script("group_clouds").main(["--device", "cpu", "--data", str(tmp_path)])


@pytest.mark.slow
@pytest.mark.parametrize("array", ["points_5k", "points_23k"])
def test_whole_dragon(script, device, tmp_path, array):
    np.savez(tmp_path / "whole.npz", np.load(DRAGON)[array])
    arguments = ["--repeats", "0", "--data", str(tmp_path), "--device", device]
    assert script("group_clouds").main(arguments) == 0


@pytest.mark.slow
def test_whole_tile(script, tmp_path):
    np.savez(tmp_path / "whole.npz", np.load(LIDAR)["points"])
    arguments = ["--repeats", "0", "--data", str(tmp_path), "--device", "cpu"]
    assert script("group_clouds").main(arguments) == 0


def test_oracle_is_what_cuda_answered(script):
    """Recorded on an NVIDIA card: ties, duplicates, the origin rule, a cloud without any pick."""
    oracle = script("grouping_oracle")
    with np.load(RECORDED) as arrays:
        recorded = {name: arrays[name] for name in arrays.files}
    clouds = [name.split("/")[0] for name in recorded if name.endswith("/pn2_fps")]
    assert len(clouds) > 10
    for cloud in clouds:
        points, picks = recorded[f"{cloud}/xyz"], recorded[f"{cloud}/pn2_fps"]
        for some, wanted in zip(points, picks, strict=True):
            got = oracle.sample(some, len(wanted))
            np.testing.assert_array_equal(got, wanted, err_msg=cloud)
        near = recorded[f"{cloud}/knn_idx"]
        for some, query, wanted in zip(points, recorded[f"{cloud}/query"], near, strict=True):
            got = oracle.neighbours(some, query[:40], wanted.shape[1])
            np.testing.assert_array_equal(got, wanted[:40], err_msg=cloud)


def test_fused_step_is_rounded_once(script):
    """Cases where rounding to float64 first gives another float32."""
    one, tiny = np.float32(1), np.float32(2.0**-40)
    half = np.float32(2.0**-12)  # its square is half a unit in the last place of 1
    a = np.array([half, np.nextafter(half, one), tiny], np.float32)
    got = script("grouping_oracle").fused(a, np.full(3, one))
    assert got.tolist() == [1.0, 1 + 2.0**-23, 1.0]
    # 2^-24 + 2^-80 above 1: float64 drops the small part, which decides
    product = np.array([1 + 2.0**-12], np.float32)
    addend = np.array([2.0**-80], np.float32)
    exact = 1 + 2.0**-11 + 2.0**-24
    assert exact == float(product[0]) ** 2
    assert script("grouping_oracle").fused(product, addend)[0] == 1 + 2.0**-11 + 2.0**-23


def test_duplicates_keep_the_first(script):
    points = np.array([[3.0, 0, 0], [1, 0, 0], [3, 0, 0], [2, 0, 0], [1, 0, 0]])
    files = script("cloud_files")
    assert files.without_duplicates(points)[:, 0].tolist() == [3, 1, 2]
    assert files.centred(points).mean(0).tolist() == [0, 0, 0]


def test_files_of_a_class(script, tmp_path):
    """As the data set names them: by number, some of every folder."""
    names = [f"cube/Pointcloud/train/{n}.stl" for n in (10, 2, 0)]
    write(tmp_path, dict.fromkeys([*names, "cube/Pointcloud/test/good/1.stl", "cube/a.txt"], ""))
    (tmp_path / "cube/Pointcloud/train/._0.stl").touch()
    found = script("cloud_files").find(tmp_path, 2)
    assert [path.name for path in found] == ["1.stl", "0.stl", "2.stl"]


def test_float64_is_the_first_obstacle(script):
    """The clouds are float64, which the device refuses; made float32 first, nothing changes."""
    points = np.load(DRAGON)["points_5k"][::9].astype(np.float64) * 1000 / 3
    columns = torch.from_numpy(points.T.copy())[None]
    with pytest.raises(TypeError, match="float64"):
        columns.to("mps")
    # the detector makes the CPU's float64 tensor float32 later: the same numbers
    group = script("group").Group(32, 16)
    late = group(columns.contiguous().float().transpose(-1, -2))
    early = group(script("group_clouds").as_the_detector(points, "mps"))
    assert all(torch.equal(one.cpu(), two) for one, two in zip(early, late, strict=True))


def test_edits_of_the_detector(script, tmp_path):
    edits = script("mac_edits")
    code = write(tmp_path, DETECTOR)
    assert edits.main(["--mulsen-code", str(code)]) == 0
    texts = {name: (code / name).read_text() for name in DETECTOR}
    for name, text in texts.items():
        compile(text.replace("**kwargs", ""), name, "exec")
    space = {"torch": torch, "self": type("Features", (), {})()}
    exec(texts["feature_extractors/features.py"], space)
    assert space["self"].device == "mps"
    space = {"pointcloud": np.arange(6.0).reshape(2, 3)}
    exec(texts["dataset.py"].rsplit("pointcloud = ", 1)[0], space)
    assert space["pointcloud"].dtype == torch.float32
    assert space["pointcloud"].to("mps").tolist() == [[0, 3], [1, 4], [2, 5]]
    assert texts["models/models.py"].count('map_location="cpu"') == 2
    assert "/home" not in texts["models/models.py"]
    # a second time changes nothing
    assert all("done before" in line for line in edits.apply(code))
    assert {name: (code / name).read_text() for name in DETECTOR} == texts


def test_edits_refuse_what_they_do_not_know(script, tmp_path):
    code = write(tmp_path, {**DETECTOR, "models/models.py": "ckpt = load(path)\n"})
    with pytest.raises(SystemExit, match=r"models/models\.py: found nothing to edit"):
        script("mac_edits").main(["--mulsen-code", str(code)])
    assert (code / "dataset.py").read_text() == DETECTOR["dataset.py"]  # untouched
    with pytest.raises(SystemExit, match=r"there is no feature_extractors/features\.py"):
        script("mac_edits").main(["--mulsen-code", str(tmp_path / "nowhere")])
