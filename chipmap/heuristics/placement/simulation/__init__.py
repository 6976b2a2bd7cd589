"""The decoder: devices and keys become a schedule; its tables, checkpoints and memory."""
