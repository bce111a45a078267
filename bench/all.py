"""Every benchmark in one run, then the goals.

    python -m mps_emulator.cuda bench/all.py [--quick] [--published PATH] [--output FILE]

Options are those of the scripts; `--ops a,b` chooses among them.
"""

import argparse
import runpy
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import goals
from harness import read

HERE = Path(__file__).parent

OPS = (
    "fps", "knn", "ball_query", "three_nn", "nearest", "spatial", "flat", "gather", "interpolate",
    "inverse_index", "grid_cluster", "graclus_cluster", "random_walk", "neighbor_sampler",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], add_help=False)
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--output", type=Path)
    options, rest = parser.parse_known_args()
    if options.output:
        rest += ["--output", str(options.output)]
    failed = []
    for op in options.ops.split(","):
        script = HERE / op / f"bench_{op}.py"
        sys.argv = [str(script), *rest]
        began = time.perf_counter()
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            if end.code:
                failed.append(op)
                print(f"{op}: {end.code}")
        print(f"{op}: {time.perf_counter() - began:.0f} s\n", flush=True)
    if options.output and options.output.exists():
        print(goals.table(read(options.output)))
    if failed:
        sys.exit(f"not equal, or failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
