"""Pytest plug-in: imports PyG once, for its warnings at import are its own and not errors here."""

import warnings

OWN_WARNINGS = (
    r"`torch_geometric\.distributed` has been deprecated",
    r"`torch\.jit\.script` is deprecated",  # by torch 2.14, for PyG's scripted functions
    r"'torch-cluster' is no longer necessary",  # by PyG 2.8, beside torch_cluster
)


def pytest_sessionstart():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in OWN_WARNINGS:
            warnings.filterwarnings("ignore", message=text)
        import torch_geometric.nn
        import torch_geometric.transforms  # noqa: F401
