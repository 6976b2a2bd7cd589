"""Placements to start from, those that ``auto`` runs."""
