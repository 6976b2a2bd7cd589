"""Networks as graphs of operations: the record of a graph, readers of files, generators of published ones."""
