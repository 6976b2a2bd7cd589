"""Explanations of family ``wafer``."""
