"""Baselines of publications, which ``auto`` doesn't run."""
