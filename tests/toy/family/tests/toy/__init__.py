"""Family ``toy``."""
