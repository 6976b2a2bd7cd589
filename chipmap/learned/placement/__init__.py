"""The placement policy, after GDP (Zhou et al., 2019): what it sees, its networks, how it learns."""
