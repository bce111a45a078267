"""The operators, one room each: contract (README.md), public function, reference, kernels."""
