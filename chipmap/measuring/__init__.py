"""Measured times of a program's operations, on the machine that runs this: what `chipmap measure` does."""
