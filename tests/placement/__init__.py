"""Tests of family ``placement``."""
