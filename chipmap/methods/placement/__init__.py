"""The methods of family ``placement``."""
