"""Heuristics and exact programs of family ``wafer``."""
