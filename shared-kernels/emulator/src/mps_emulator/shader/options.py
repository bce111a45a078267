"""Settings of the executor, read at every compilation or launch.

Use the module as the object: ``from mps_emulator.shader import options; options.seed = 3``.
"""

from __future__ import annotations

import os

seed: int = int(os.environ.get("MPS_EMULATOR_SEED", "0"))
"""Order of threadgroups, simdgroups and lanes: 0 is the natural one, others are shuffles."""

fast_math: bool = os.environ.get("PYTORCH_MPS_FAST_MATH", "0") != "0"
"""Compile with fast math, as torch does when ``PYTORCH_MPS_FAST_MATH`` is set and not "0"."""

metal_version: int = int(os.environ.get("MPS_EMULATOR_METAL_VERSION", "310"))
"""``__METAL_VERSION__`` of the shaders: 310, 320 or 400."""

checks: bool = True
"""Check every load and store; without it only simdgroup operations and barriers are checked."""

time_limit: float = 300.0
"""Seconds that one launch may run before it is stopped with an error; 0 means no limit."""

ended_threads_pass_barriers: bool = False
"""Let a thread that has returned not block a barrier, as Apple GPUs do; it is not portable."""

allow_cpu_tensors: bool = False
"""Bind CPU tensors with dimensions, which the real object refuses. For benchmarks and tests."""
