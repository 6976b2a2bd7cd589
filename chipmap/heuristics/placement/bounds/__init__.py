"""Lower bounds of family ``placement``."""
