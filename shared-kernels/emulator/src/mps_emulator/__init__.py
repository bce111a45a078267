"""A software Apple GPU for PyTorch."""
