"""The explicit models of family ``multimodel``."""
