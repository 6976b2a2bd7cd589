"""Tests of family ``multimodel``."""
