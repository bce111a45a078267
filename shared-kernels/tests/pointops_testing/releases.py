"""What tests have to tell older releases of torch."""

from contextlib import AbstractContextManager, nullcontext

import torch

RELEASE = tuple(int(number) for number in torch.__version__.split(".")[:2])


def captured_sizes() -> AbstractContextManager:
    """Compile calls with results of unknown size: 2.7 does not of itself, not even a full graph.

    Releases between it and 2.14, which does, were not tried.
    """
    if RELEASE < (2, 14):
        return torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
    return nullcontext()
