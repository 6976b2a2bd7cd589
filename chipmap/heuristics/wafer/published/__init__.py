"""The placers of the published comparison."""
