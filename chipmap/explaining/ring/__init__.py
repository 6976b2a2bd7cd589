"""Explanations of family ``ring``."""
