"""The registry of best-known values: what ships with the package, and how entries come into it."""
