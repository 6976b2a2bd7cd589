"""Exact combinatorial programs and bounds of family ``dataflow``; no solver model."""
