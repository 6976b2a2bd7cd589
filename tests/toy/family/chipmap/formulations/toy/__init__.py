"""The models of family ``toy``."""
