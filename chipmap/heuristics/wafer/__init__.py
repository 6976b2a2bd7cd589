"""Heuristics, exact combinatorial programs and bounds of family ``wafer``."""
