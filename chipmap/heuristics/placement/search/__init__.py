"""Annealing over devices and keys, and the units that it moves."""
