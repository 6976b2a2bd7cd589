"""Smaller graphs of the same structure: roles of operations, what is left out, and plans carried over."""
