"""Point-cloud operators for PyTorch on Apple silicon."""
