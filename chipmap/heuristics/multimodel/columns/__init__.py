"""Lower bounds by column generation over windows."""
