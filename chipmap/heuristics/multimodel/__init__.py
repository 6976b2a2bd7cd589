"""Combinatorial algorithms of family ``multimodel``: no solver model."""
