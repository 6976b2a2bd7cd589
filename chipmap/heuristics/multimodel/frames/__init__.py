"""Frames per second: timetables modulo a hyperperiod, a search over mappings, bounds by utilisation."""
