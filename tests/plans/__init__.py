"""Plans: out to runtimes, in from runtimes."""
