"""Element-wise operations of a graph that make one kernel: fan-out-free cones.

A source writes a normalisation or a rotary embedding as six to ten operators, an exporter an activation as two. On any
machine these are one sweep over the tensor. So an element-wise operation joins the kernel of its readers where all of
them, directly or through views, are element-wise operations of one kernel, and no output of the graph is made on the
way. Such a kernel has one way out, the last operation: no path can leave it and come back. What joins it is found from
the last operation to the first, as logic synthesis does (Cong and Ding 1994: maximum fanout-free cones).
"""

from __future__ import annotations

from chipmap.instances.graph import OperationGraph
from chipmap.instances.importers.loops import element_wise


def cones(graph: OperationGraph) -> list[int]:
    """For each operation the last operation of its kernel, itself where it makes one alone (or doesn't compute).

    Only operations of which a reader found loop nests are looked at: names of other formats say nothing.
    """
    count = len(graph.operations)
    root = list(range(count))
    if not any(operation.loops is not None for operation in graph.operations):
        return root
    readers: list[set[int]] = [set() for _ in range(count)]  # computing ones, directly or through views
    kept = [False] * count  # whether what it makes is an output, directly or through views
    made: list[list[int]] = [[] for _ in range(count)]
    for t, tensor in enumerate(graph.tensors):
        made[tensor.producer].append(t)
    for v in reversed(graph.topological_order()):
        for t in made[v]:
            kept[v] |= graph.tensors[t].output
            for reader in graph.tensors[t].readers:
                if graph.operations[reader].role == "view":
                    readers[v] |= readers[reader]
                    kept[v] |= kept[reader]
                else:
                    readers[v].add(reader)
        operation = graph.operations[v]
        if operation.role == "compute" and element_wise(operation.kind) and not kept[v]:
            ends = {root[reader] for reader in readers[v]}
            if len(ends) == 1 and all(element_wise(graph.operations[reader].kind) for reader in readers[v]):
                root[v] = ends.pop()
    return root
