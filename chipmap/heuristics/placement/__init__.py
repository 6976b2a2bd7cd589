"""Simulator, starts, searches and bounds of family ``placement``."""
