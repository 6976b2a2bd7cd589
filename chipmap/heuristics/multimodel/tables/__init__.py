"""The least energy of every range of layers, by kind of path and by time."""
