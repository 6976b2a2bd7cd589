"""The scripts that are written beside ``stages.json``; chipmap itself never runs them."""
