"""The whole command: what it runs, what it prints, its exit code and its JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mps_emulator
from mps_pointops import __main__ as command
from mps_pointops.doctor import cli, environment, installed, kernels, report, selftest
from mps_pointops.doctor.finding import Finding

DOCTOR = Path(cli.__file__).parent


@pytest.fixture
def quick(monkeypatch):
    """Without the process that imports; `test_from_a_shell` has it."""
    monkeypatch.setattr(installed, "check_imports", lambda names, path: [])


@pytest.fixture
def all_right(monkeypatch, quick):
    """An installation without problems, whatever this environment is."""
    monkeypatch.setattr(installed, "NAMES", installed.NAMES[:0])
    for name in ("PYTORCH_ENABLE_MPS_FALLBACK", "PYTORCH_MPS_FAST_MATH"):
        monkeypatch.delenv(name, raising=False)


def run(capsys, *arguments):
    code = command.main(["doctor", *arguments])
    return code, capsys.readouterr().out


def test_text(capsys, all_right, device):
    code, out = run(capsys, "--device", device)
    assert code == 0, out
    lines = out.splitlines()
    assert lines[-1] == "nothing is wrong"
    assert f"ok      torch: torch: torch {torch.__version__}" in out
    assert f"ok      operators: all: {len(selftest.OPERATORS)} operators on {device}, " in out
    assert ("simdgroups of 32 threads" in out) is (device == "mps")


def test_json(capsys, all_right, device):
    """Its keys are promised: one that goes or changes its meaning raises the schema."""
    code, out = run(capsys, "--device", device, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["schema"] == 1
    assert told["ok"] is True
    assert set(told) == {
        *("schema", "ok", "findings", "version", "device", "emulated", "names"),
        *("torch", "pyg", "kernels", "operators"),
    }
    assert all(
        set(finding) == {"level", "area", "subject", "what", "cure"} for finding in told["findings"]
    )
    assert {finding["level"] for finding in told["findings"]} <= {"ok", "note", "problem"}
    assert set(told["torch"]) == {
        *("version", "mps_built", "mps_available", "system", "machine", "python", "variables"),
    }
    assert set(told["pyg"]) == {"torch_geometric", "pyg_lib", "pyg_lib_mps_plugin"}
    assert told["device"] == device
    emulated = device == "mps" and mps_emulator.is_installed()
    assert told["emulated"] is emulated  # installed by who started this process
    (place,) = (f["what"] for f in told["findings"] if f["area"] == "device")
    assert ("emulated" in place) is emulated
    assert set(told["operators"]) == set(selftest.OPERATORS)
    for name, found in told["operators"].items():
        assert found["wrong"] == 0, name
        assert found["values"] > 0, name
    if device == "mps":
        assert set(told["kernels"]) == {"simd_width", "compiled", "failed"}
        assert told["kernels"]["simd_width"] == 32
        files = {label.partition(" ")[0] for label in told["kernels"]["compiled"]}
        assert {"fps.metal", "knn.metal", "ball_query.metal", "gather.metal"} <= files
    else:
        assert told["kernels"] is None


def test_json_of_the_names(capsys, quick):
    _, out = run(capsys, "--json", "--install-only")
    told = json.loads(out)
    assert told["kernels"] is told["operators"] is None
    assert [name["import_name"] for name in told["names"]] == [
        n.import_name for n in installed.NAMES
    ]
    for name in told["names"]:
        assert set(name) == {"import_name", "path", "distributions"}
        for owner in name["distributions"]:
            assert set(owner) == {
                *("name", "version", "editable", "same", "changed", "missing", "active"),
            }


def test_the_page_has_every_key(capsys, all_right):
    _, out = run(capsys, "--json", "--device", "mps")
    page = (DOCTOR / "README.md").read_text()
    told = json.loads(out)
    keys = {*told, *told["findings"][0], *told["torch"], *told["pyg"], *told["kernels"]}
    assert [key for key in keys if f"`{key}`" not in page] == []
    for option in ("--json", "--device", "--emulated", "--all-kernels", "--install-only"):
        assert option in page


def test_every_operator_of_the_package_is_tested():
    import mps_pointops
    from mps_pointops import flat

    names = {name for name in mps_pointops.__all__ if name not in ("__version__", "flat")}
    assert names | {f"flat.{name}" for name in flat.__all__} <= set(selftest.OPERATORS)


@pytest.mark.parametrize("name", selftest.OPERATORS)
def test_a_wrong_value_is_found(name, monkeypatch):
    """One bit of one result is turned."""
    case = selftest.OPERATORS[name]

    def turned(inputs):
        for number, (got, wanted) in enumerate(case(inputs)):
            wrong = got.clone()
            if number == 0:
                place = wrong.flatten()
                place[-1] = place[-1] + 1 if wrong.dtype != torch.bool else ~place[-1]
            yield wrong, wanted

    monkeypatch.setattr(selftest, "OPERATORS", {name: turned})
    (finding,), facts = selftest.check_operators("cpu")
    assert (finding.level, finding.subject) == ("problem", name)
    assert finding.what == f"1 of {facts[name]['values']} values differ from the reference"
    assert "report it" in finding.cure


def test_an_error_and_a_wrong_device_are_found(monkeypatch, capsys, all_right):
    def fails(inputs):
        yield torch.ones(1), torch.ones(1)
        raise RuntimeError("no such kernel\nmore")

    def on_the_cpu(inputs):
        yield torch.ones(3), torch.ones(3)

    monkeypatch.setattr(selftest, "OPERATORS", {"a": fails, "b": on_the_cpu})
    code, out = run(capsys, "--device", "mps")
    assert code == 1
    assert "PROBLEM operators: a: raises RuntimeError: no such kernel\n" in out
    assert "PROBLEM operators: b: 3 of 3 values differ from the reference\n" in out
    assert "until then keep the tensors on the CPU" in out
    assert out.splitlines()[-1] == "2 problems; what to do stands below each"


def test_the_generator_is_left_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    selftest.check_operators("cpu")
    assert torch.equal(torch.random.get_rng_state(), before)


# --- kernels


def test_a_kernel_that_does_not_compile(monkeypatch):
    texts = [("good.metal [A=1]", kernels._WIDTH_PROBE), ("bad.metal [A=1]", "kernel void x(;")]
    monkeypatch.setattr(kernels, "variants", lambda: iter(texts))
    (finding,), facts = kernels.check_kernels(every=False)
    assert (finding.level, finding.subject) == ("problem", "bad.metal [A=1]")
    assert finding.what.startswith("does not compile: ")
    assert facts["compiled"] == ["good.metal [A=1]"]
    assert list(facts["failed"]) == ["bad.metal [A=1]"]


def test_one_of_each_file_or_all(monkeypatch):
    texts = [(f"{name}.metal [A={n}]", kernels._WIDTH_PROBE) for name in "ab" for n in range(3)]
    monkeypatch.setattr(kernels, "variants", lambda: iter(texts))
    assert len(kernels.check_kernels(every=True)[1]["compiled"]) == 6
    assert len(kernels.check_kernels(every=False)[1]["compiled"]) == 2


def test_simdgroups_of_another_width(monkeypatch):
    monkeypatch.setattr(kernels, "variants", lambda: iter(()))
    monkeypatch.setattr(kernels, "_simd_width", lambda: 64)
    (finding,), _ = kernels.check_kernels(every=False)
    assert finding.what == "this GPU has simdgroups of 64 threads, the kernels need 32"


def test_nothing_compiles(monkeypatch):
    monkeypatch.setattr(kernels, "_WIDTH_PROBE", "not a kernel")
    (finding,), facts = kernels.check_kernels(every=False)
    assert finding.level == "problem"
    assert finding.what.startswith("no kernel compiles at all: ")
    assert facts["compiled"] == []


# --- torch, device, PyG


@pytest.mark.parametrize(
    ("version", "level"), [("2.6.1", "problem"), ("2.7.0", "ok"), ("3.0.0a0+git1", "ok")]
)
def test_version_of_torch(monkeypatch, version, level):
    monkeypatch.setattr(torch, "__version__", version)
    finding = environment.check_torch()[0][0]
    assert finding.level == level
    assert finding.cure == ("pip install 'torch>=2.7'" if level == "problem" else "")


def test_variables(monkeypatch):
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "1")
    findings, facts = environment.check_torch()
    assert [f.subject for f in findings if f.level == "note"] == ["fallback", "fast math"]
    assert facts["variables"]["PYTORCH_MPS_FAST_MATH"] == "1"


def _no_gpu(monkeypatch, system="linux", machine="x86_64", built=False):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: built)
    monkeypatch.setattr(environment.sys, "platform", system)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)


@pytest.mark.parametrize(
    ("system", "machine", "built", "device", "level", "what", "cure"),
    [
        ("linux", "x86_64", False, "cpu", "ok", "no Apple GPU", ""),
        ("linux", "x86_64", False, "mps", "problem", "is not built for MPS", "use --device cpu"),
        ("darwin", "arm64", True, "mps", "problem", "finds no Apple GPU", "macOS 14 or later"),
        ("darwin", "arm64", False, "cpu", "problem", "no Apple GPU", "torch for arm64"),
        ("darwin", "x86_64", False, "mps", "problem", "for Intel processors", "Python for arm64"),
        ("darwin", "x86_64", False, "cpu", "note", "for Intel processors", "Python for arm64"),
    ],
)
def test_devices(monkeypatch, system, machine, built, device, level, what, cure):
    _no_gpu(monkeypatch, system, machine, built)
    (finding,) = environment.check_device(device, False)
    assert finding.level == level
    assert what in finding.what
    assert cure in finding.cure
    assert bool(finding.cure) is (level != "ok")


def test_a_device_that_is_not_there_is_not_tried(monkeypatch, capsys, all_right):
    _no_gpu(monkeypatch)
    code, out = run(capsys, "--device", "mps", "--json")
    told = json.loads(out)
    assert code == 1
    assert told["ok"] is False
    assert told["kernels"] is told["operators"] is None


@pytest.mark.parametrize(
    ("installed_", "level", "subject", "cure"),
    [
        ({}, "ok", "torch_geometric", ""),
        ({"torch-geometric": "2.8.1"}, "note", "torch_geometric", "pip install pyg-lib-mps-plugin"),
        ({"torch-geometric": "2.7.0"}, "note", "torch_geometric", "pip install torch-cluster-mps"),
        ({"pyg-lib-mps-plugin": "0.1"}, "note", "pyg_lib", "pip install pyg-lib -f https://data"),
        (
            {"pyg-lib-mps-plugin": "0.1", "torch-geometric": "2.8.1"},
            "problem",
            "pyg_lib",
            "pip install pyg-lib -f https://data",
        ),
        (
            {"pyg-lib-mps-plugin": "0.1", "torch-geometric": "2.8.1", "pyg-lib": "0.8.0"},
            "ok",
            "torch_geometric",
            "",
        ),
    ],
)
def test_pyg(site, installed_, level, subject, cure):
    for name, version in installed_.items():
        site.install(name, version, {})
    (finding,), facts = environment.check_pyg(site.path)
    assert (finding.level, finding.subject) == (level, subject)
    assert cure in finding.cure
    assert facts["torch_geometric"] == installed_.get("torch-geometric")


# --- the command


def test_problems_have_cures_in_the_text():
    text = report.as_text(
        [Finding("problem", "install", "x", "broken", "pip a\npip b"), Finding("ok", "a", "b", "c")]
    )
    assert text.splitlines() == [
        "PROBLEM install: x: broken",
        "            pip a",
        "            pip b",
        "ok      a: b: c",
        "1 problem; what to do stands below each",
    ]


def test_bad_options(capsys):
    assert command.main(["doctor", "--emulated", "--device", "cpu"]) == 2
    assert "does not go with --device cpu" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        command.main(["doctor", "--device", "cuda"])
    assert stopped.value.code == 2


def test_no_emulation_here(capsys, monkeypatch):
    """As in an environment of wheels: what is said is of the doctor too."""
    monkeypatch.setitem(sys.modules, "mps_emulator", None)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert command.main(["doctor", "--emulated"]) == 2
    told = capsys.readouterr().err
    assert "run this there with: uv run python -m mps_pointops" in told
    assert "demo" not in told


def test_from_a_shell(tmp_path):
    """With the imports, in a folder that hides one of them."""
    hidden = tmp_path / "knn_cuda"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError('not this one')\n")
    words = ("-m", "mps_pointops", "doctor", "--install-only", "--json")
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    found = [f for f in told["findings"] if f["level"] == "problem"]
    assert [f["subject"] for f in found] == ["knn_cuda"]
    assert str(hidden) in found[0]["what"]
