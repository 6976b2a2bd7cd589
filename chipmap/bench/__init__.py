"""Sweeps: many solves in worker processes or on a Dask cluster, into one resumable SQLite file."""
