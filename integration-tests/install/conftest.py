"""Wheels, and clean environments to install them in.

An environment has nothing of this project. torch and the like are those of the running environment,
or of one that is made for each release in POINTOPS_TORCH: a folder of links to its packages,
without ours, is on the module path. Installers do not own that folder, so nothing there changes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = ROOT / "shared-kernels" / "emulator" / "src"
OURS = ("mps", "pointnet2", "knn_cuda", "torch_cluster", "pyg_lib", "__pycache__")
MEMBERS = (
    *("mps-pointops", "pointnet2-ops-mps", "knn-cuda-mps"),
    *("torch-cluster-mps", "pyg-lib-mps-plugin"),
)
# releases of torch, or "newest"; None is the one that runs these tests
TORCH = tuple(os.environ.get("POINTOPS_TORCH", "").split()) or (None,)


def run(*command, check=True, cwd=ROOT, **settings):
    """Output of a command, and its errors."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONWARNINGS")
    env = {k: v for k, v in os.environ.items() if k not in hidden and not k.startswith("PYTEST")}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**env, **settings}, cwd=cwd, check=False
    )
    if check and done.returncode:
        pytest.fail(f"{shlex.join(words)}\n{done.stdout}{done.stderr}", pytrace=False)
    return done


def make_wheel(folder, name, version, files=(), requires=()):
    """A wheel made by hand."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    lines = "".join(f"Requires-Dist: {text}\n" for text in requires)
    files = {
        **dict(files),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{info}/RECORD,,"]
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record.append(f"{file},sha256={digest.rstrip(b'=').decode()},{len(text)}")
        archive.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return wheel


class Environment:
    """A new environment, and an installer for it: 'uv' or 'pip'."""

    def __init__(self, folder, installer, host, wheels):
        self.folder, self.installer, self.wheels = folder, installer, wheels
        if installer == "uv":
            run("uv", "venv", "-q", "--offline", "--python", sys.executable, folder)
        else:  # with the pip that Python brings
            base = Path(sys.base_prefix, "bin", "python3")
            run(base, "-m", "venv", folder)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        (self.site / "host.pth").write_text(f"{host}\n")

    def pip(self, *words):
        """`pip WORDS`, or what uv has for it, from the folder of wheels alone."""
        if self.installer == "uv":
            command = ["uv", "pip", words[0], "-q", "--python", self.python]
            words = [word for word in words if word != "-y"]
        else:
            command = [self.python, "-m", "pip", words[0], "-q", "--disable-pip-version-check"]
        if words[0] == "install":
            source = ["--offline"] if self.installer == "uv" else []
            # uv does not see what lies in another folder of the module path
            command += [*source, "--no-index", "--no-deps", "--find-links", self.wheels]
            words = [word for word in words if word != "--no-deps"]
        return run(*command, *words[1:])

    def cure(self, text):
        """Run the commands of a cure as they stand, `pip` being the installer."""
        for line in text.splitlines():
            words = shlex.split(line)
            assert words[0] == "pip", f"not a command: {line}"
            self.pip(*words[1:])

    def run(self, code, *options, emulated=False, check=True, **settings):
        """Run Python code in a folder without sources."""
        if emulated:
            code = f"import mps_emulator; mps_emulator.install()\n{code}"
            settings = {"PYTHONPATH": str(EMULATOR), **settings}
        return run(self.python, *options, "-c", code, check=check, cwd=self.folder, **settings)


@pytest.fixture(name="make_wheel")
def _make_wheel():
    return make_wheel


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """All wheels of this workspace, in one folder."""
    if shutil.which("uv") is None:
        pytest.fail("uv is not on the path; it builds the wheels", pytrace=False)
    folder = tmp_path_factory.mktemp("wheels")
    for name in MEMBERS:
        run("uv", "build", "-q", "--wheel", "--package", name, "--out-dir", folder)
    return folder


@pytest.fixture(scope="session", params=TORCH, ids=lambda version: f"torch-{version or 'here'}")
def torch_version(request):
    """Release of torch in the environments; None is that of the running one."""
    return request.param


def install_torch(version, folder, wheels):
    """Packages of a new environment: that torch and all wheels, as an installer resolves them."""
    run("uv", "venv", "-q", "--python", sys.executable, folder)
    wanted = "torch" if version == "newest" else f"torch=={version}"
    command = ["uv", "pip", "install", "-q", "--python", folder, wanted, *wheels.glob("*.whl")]
    done = run(*command, "packaging", "ziglang", check=False)  # the emulator's compiler
    if f"there is no version of {wanted}" in " ".join(done.stderr.split()):
        pytest.skip(f"the package index has no {wanted}")
    if done.returncode:
        pytest.fail(f"{wanted} and the wheels:\n{done.stderr}", pytrace=False)
    (site,) = folder.glob("lib/python*/site-packages")
    return site


@pytest.fixture(scope="session")
def host(tmp_path_factory, torch_version, wheels):
    """Links to packages without ours: torch and what it and we need."""
    site = Path(sysconfig.get_path("purelib"))
    if torch_version is not None:
        site = install_torch(torch_version, tmp_path_factory.mktemp("torch") / "env", wheels)
    folder = tmp_path_factory.mktemp("host")
    for entry in site.iterdir():
        if entry.suffix != ".pth" and not any(word in entry.name for word in OURS):
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture
def environment(tmp_path, host, wheels):
    """Makes a clean environment: `environment(installer)`."""

    def make(installer="uv"):
        return Environment(tmp_path / "clean", installer, host, wheels)

    return make
