"""Engines that several families use: order ideals, list scheduling."""
