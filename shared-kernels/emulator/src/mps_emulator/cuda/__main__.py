"""Runs a program on an NVIDIA card's MPS code path: ``python -m mps_emulator.cuda script.py``."""

from __future__ import annotations

import argparse
import sys

import mps_emulator.cuda
from mps_emulator.__main__ import add_program, check_program, run_program


def main(arguments: list[str]) -> None:
    """Installs the translation, then runs the program as Python itself would.

    Args:
        arguments: The command line after ``python -m mps_emulator.cuda``.
    """
    parser = argparse.ArgumentParser(
        prog="python -m mps_emulator.cuda",
        description="Run a program whose CUDA tensors take the MPS code path of its packages.",
        usage="%(prog)s (-m module | script.py) [argument ...]",
    )
    add_program(parser)
    options = parser.parse_args(arguments)
    check_program(parser, options)
    mps_emulator.cuda.install()
    run_program(options)


if __name__ == "__main__":
    main(sys.argv[1:])
