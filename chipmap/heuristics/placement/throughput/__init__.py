"""Throughput: the program over ideals, and a search towards equal loads."""
