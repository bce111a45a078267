"""The schemas of pyg-lib, defined for the tests only, and processes to test imports in."""

import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

SCHEMAS = Path(__file__).with_name("pyg_schemas.txt")
_keep = []


@pytest.fixture(scope="session")
def pyg():
    """`torch.ops.pyg`, with the real pyg-lib where there is one."""
    if find_spec("pyg_lib") is not None:
        import pyg_lib  # noqa: F401
    elif not _keep:
        library = torch.library.Library("pyg", "DEF")
        for schema in SCHEMAS.read_text().splitlines():
            library.define(schema)
        _keep.append(library)
    return torch.ops.pyg


@pytest.fixture
def fresh(tmp_path):
    """Runs code in a fresh process in an empty folder; returns what it prints."""

    def run(code, *, emulated=False, path=(), **environment):
        import os

        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        env.update(environment)
        if path:
            env["PYTHONPATH"] = os.pathsep.join(map(str, path))
        script = tmp_path / "script.py"
        emulate = "import mps_emulator\nmps_emulator.install(strict=True)\n" if emulated else ""
        script.write_text(emulate + textwrap.dedent(code))
        command = [sys.executable, "-W", "error", str(script)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done.stdout.strip()

    return run
