"""Kernels, layers and fixed costs measured on one H100, and what the family ``dataflow`` predicts for them."""
