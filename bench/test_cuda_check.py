"""Every kernel of the project is accepted by NVIDIA's compiler; no card is needed."""

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import cuda_check

import mps_pointops.ops
import mps_pointops.spatial
from mps_emulator.cuda import _library, _nvrtc
from mps_emulator.cuda._translate import translate
from mps_emulator.shader._toolchain import Mode
from mps_pointops._metal import variants

for _package in (mps_pointops.ops, mps_pointops.spatial):
    for _module in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_module.name)
VARIANTS = dict(variants())
FIRST = {label.partition(" ")[0]: label for label in reversed(VARIANTS)}  # one of each file

pytestmark = pytest.mark.skipif(not _nvrtc.is_available(), reason="needs a PyTorch with CUDA")


def _compile(label: str) -> None:
    mode = Mode(False, 310, True)
    translation = translate(VARIANTS[label], mode)
    chosen = _library.compiler_options(translation, mode, "compute_90")
    program = translation.program(whole=True, by_value=True)
    made = _nvrtc.compile_text(program, "program_source", chosen).decode()
    assert made.count(".entry ") == len(translation.kernels) > 0


@pytest.mark.parametrize("way", cuda_check.FORCED)
def test_thresholds_that_the_card_check_forces_exist(way: str) -> None:
    values, sections = cuda_check.FORCED[way]
    with cuda_check.forced(values):
        assert all(next(iter(section(True))) for section in sections)


@pytest.mark.parametrize("label", sorted(FIRST.values()))
def test_one_variant_of_every_text(label: str) -> None:
    _compile(label)


@pytest.mark.slow
@pytest.mark.parametrize("label", sorted(set(VARIANTS) - set(FIRST.values())))
def test_the_other_variants(label: str) -> None:
    _compile(label)
