"""Explanations of family ``placement``."""
