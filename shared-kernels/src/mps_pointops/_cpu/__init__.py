"""Searches on CPU tensors: what the rooms' `cpu.py` share. NumPy, and SciPy's k-d tree."""
