"""The kernels, by family. Loaded at the first call of an operator on an `mps` tensor."""
