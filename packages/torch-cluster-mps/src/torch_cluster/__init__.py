"""Point-cloud and graph operators under the import name of torch_cluster."""

__version__ = "1.6.3"
__mps_version__ = "0.1.0"
