"""Explanations of family ``multimodel``."""
