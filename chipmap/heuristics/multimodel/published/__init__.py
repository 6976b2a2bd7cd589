"""SCAR's own search, the baseline of its publication."""
