"""The explicit models of family ``placement``."""
