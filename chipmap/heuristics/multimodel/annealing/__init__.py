"""Annealing of whole schedules."""
