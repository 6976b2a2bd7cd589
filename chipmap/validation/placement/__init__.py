"""The independent checker of family ``placement``, and all placements of a tiny instance."""
