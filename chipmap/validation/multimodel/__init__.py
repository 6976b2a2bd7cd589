"""The independent checker of family ``multimodel``, and all schedules of a tiny instance."""
