"""Plans: emitted, read again, judged."""
