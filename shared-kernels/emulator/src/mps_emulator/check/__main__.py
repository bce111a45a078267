"""``python -m mps_emulator.check [--define NAME=VALUE ...] FILES...``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mps_emulator.check import ClangMissingError, check_source


def _define(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME or NAME=VALUE, got {text!r}")
    return name, value or "1"


def main(arguments: list[str] | None = None) -> int:
    """Check files and print the problems; 1 when there was an error, 2 when a check cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m mps_emulator.check", description="Check Metal compute shaders."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--define", "-D", action="append", default=[], type=_define, metavar="NAME=VALUE"
    )
    parser.add_argument("--metal-version", type=int, default=310, metavar="310|320|400")
    parser.add_argument(
        "--require-contract-off",
        action="store_true",
        help="float arithmetic outside `#pragma METAL fp contract(off)` is an error",
    )
    options = parser.parse_args(arguments)
    errors = 0
    for file in options.files:
        try:
            text = file.read_bytes().decode("utf-8", errors="replace")
            problems = check_source(
                text,
                str(file),
                defines=dict(options.define),
                metal_version=options.metal_version,
                require_contract_off=options.require_contract_off,
            )
        except (OSError, ClangMissingError) as error:
            print(f"{file}: cannot be checked: {error}", file=sys.stderr)
            return 2
        for problem in problems:
            print(problem)
        errors += sum(problem.severity == "error" for problem in problems)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
