"""Combinatorial programs, searches and bounds of family ``wafer``."""
