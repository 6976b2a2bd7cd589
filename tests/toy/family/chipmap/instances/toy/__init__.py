"""Family ``toy``: tasks on two machines."""
