"""Learned proposals for the annealing of ``placement``, against the search as it is."""
