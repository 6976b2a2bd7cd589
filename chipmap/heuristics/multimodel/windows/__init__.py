"""Schedules of one window and of several, from the tables; bounds for any number of windows."""
