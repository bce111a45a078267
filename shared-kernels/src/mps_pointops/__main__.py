"""Command line: `python -m mps_pointops <command>`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mps_pointops import __version__
from mps_pointops.demo import cli as demo
from mps_pointops.doctor import cli as doctor

# a command is a module with `add_command(subparsers)`, which sets `run` to the function to call;
# its heavy imports wait until then
_COMMANDS = (demo, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mps_pointops",
        description="Point-cloud operators for PyTorch on Apple silicon.",
    )
    parser.add_argument("--version", action="version", version=f"mps_pointops {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add_command(subparsers)
    options = parser.parse_args(argv)
    if not hasattr(options, "run"):
        parser.print_help()
        return 0
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
