"""Pytest plug-in: ``device="mps"`` is the real device on a Mac and the emulated one elsewhere."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

import mps_emulator

_MARKER = "allow_wrong_on_mps"
_failure = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Installs the device for this run, operators known to be wrong on a Mac refused."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(*names): use these operators although a Mac is known to get them wrong",
    )
    try:
        mps_emulator.install(strict=True)
    except (RuntimeError, ValueError) as error:  # no compiler, a failed build, a bad setting
        config.stash[_failure] = str(error)


def pytest_report_header(config: pytest.Config) -> str:
    """Says which device the run uses."""
    import torch

    version = f"torch {torch.__version__}"
    if _failure in config.stash:
        return f"mps: NONE, the run will fail ({version})\n{config.stash[_failure]}"
    if not mps_emulator.is_installed():
        return f"mps: real device ({version})"
    from mps_emulator.device import _operators
    from mps_emulator.shader import options

    math = "fast" if options.fast_math else "safe"
    metal = f"{options.metal_version // 100}.{options.metal_version // 10 % 10}"
    return (
        f"mps: emulated ({version}, {math} math, schedule seed {options.seed}, Metal {metal}, "
        f"operators: {_operators.table_version()})"
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that could not get its device does not end well, whatever its tests say."""
    if _failure in session.config.stash and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Repeats at the end why there was no device."""
    if _failure in config.stash:
        terminalreporter.section("mps device", red=True)
        terminalreporter.write_line(config.stash[_failure])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses markers that allow what is not in the table."""
    for item in items:
        for name in _allowed_by(item):
            if name not in mps_emulator.known_wrong():
                raise pytest.UsageError(
                    f"{item.nodeid}: {_MARKER} expects names of operators known to be wrong on "
                    f"MPS, got {name!r}; they are {', '.join(mps_emulator.known_wrong())}"
                )


def _allowed_by(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers(_MARKER) for name in mark.args]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Applies the marker to the test and its fixtures."""
    with mps_emulator.allow(*_allowed_by(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, Any, Any]:
    """Fails the test after which a device buffer was found damaged at its edges."""
    result = yield
    if mps_emulator.is_installed():
        import torch

        damage = torch.ops.mps_emulator.take_overruns()
        if damage:
            pytest.fail("\n".join(damage), pytrace=False)
    return result
