"""Runs a program with the emulated ``mps`` device: ``python -m mps_emulator script.py``."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

import mps_emulator


def main(arguments: list[str]) -> None:
    """Installs the device, then runs the program as Python itself would.

    Args:
        arguments: The command line after ``python -m mps_emulator``.
    """
    parser = argparse.ArgumentParser(
        prog="python -m mps_emulator",
        description="Run a program with an emulated mps device where no Apple GPU is.",
        usage="%(prog)s [--strict] (-m module | script.py) [argument ...]",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse operators known to be wrong on a Mac as well"
    )
    add_program(parser)
    options = parser.parse_args(arguments)
    check_program(parser, options)
    mps_emulator.install(strict=options.strict)
    run_program(options)


def add_program(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a program: ``-m``, the program, its own arguments.

    Args:
        parser: What they are added to.
    """
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("program", help="script to run, or module after -m")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="the program's own arguments")


def check_program(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends with a message if the script does not exist.

    Args:
        parser: What the message is from.
        options: The parsed arguments.
    """
    if not options.module and not os.path.exists(options.program):
        parser.error(f"can't open file {options.program!r}: it does not exist")


def run_program(options: argparse.Namespace) -> None:
    """Runs the program that the arguments name, in this process, as ``__main__``.

    Args:
        options: The parsed arguments.
    """
    sys.argv = [options.program, *options.rest]
    if options.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(options.program))
        runpy.run_path(options.program, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
