"""What the tests of this workspace share: named clouds, independent oracles, exact comparison."""

from pointops_testing import oracles
from pointops_testing.clouds import CLOUDS, SIZES, cloud
from pointops_testing.compare import assert_same_bits, root

__all__ = ["CLOUDS", "SIZES", "assert_same_bits", "cloud", "oracles", "root"]
