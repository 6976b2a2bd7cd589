"""Learned costs: networks that are measured on one processor, and how far predicted times of operations carry."""
