"""What the demo reports in one line instead of a traceback."""

from __future__ import annotations


class DemoError(Exception):
    """A bad file or option: the message is for the user, the exit code is 2."""


def missing_extra(package: str, purpose: str) -> DemoError:
    """The error for a package of the `demo` extra that is not installed."""
    return DemoError(
        f"{purpose} needs {package}, which is not installed; "
        'install it with: python -m pip install "mps-pointops[demo]"'
    )
