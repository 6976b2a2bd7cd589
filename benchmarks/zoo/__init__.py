"""The zoo: 13 current networks, exported from PyTorch in three forms, and what chipmap's importers say of them."""
