"""The script beside the models of the stages, which runs without chipmap."""
