"""Element-wise operations of a graph that make one kernel: fan-out-free cones.

A source writes a normalisation or a rotary embedding as six to ten operators, an exporter an activation as two. On any
machine these are one sweep over the tensor. So an element-wise operation joins the kernel of its readers where all of
them, directly or through views, are element-wise operations of one kernel, and no output of the graph is made on the
way. Such a kernel has one way out, the last operation: no path can leave it and come back. What joins it is found from
the last operation to the first, as logic synthesis does (Cong and Ding 1994: maximum fanout-free cones).

Some sources write a product's bias, and the scaling of queries and keys, as operations behind the product. Machines
apply them as it leaves (an epilogue). So a product with parameters joins the kernel that alone reads it where that
does nothing else: sums and products with constants, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.loops import affine, element_wise


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
    for product, last in epilogues(graph, root, readers, kept):
        root[product] = last
    return root


def epilogues(
    graph: OperationGraph, root: Sequence[int], readers: Sequence[set[int]], kept: Sequence[bool]
) -> Iterator[tuple[int, int]]:
    """(product with parameters, last operation) of the kernels that only scale and shift what the product makes.

    ``root``, ``readers`` and ``kept`` are those of :func:`cones`. Where the product may be split by rows, each of these
    operations must be as well.
    """
    members: dict[int, list[int]] = {}
    for v, end in enumerate(root):
        if graph.operations[v].role == "compute":
            members.setdefault(end, []).append(v)
    sources: dict[int, set[int]] = {}  # of a kernel, outside of it
    for v, found in enumerate(readers):
        if graph.operations[v].role == "compute":
            for end in {root[reader] for reader in found} - {root[v]}:
                sources.setdefault(end, set()).add(v)
    for last, cone in members.items():
        alone = sources.get(last, set())
        if len(alone) != 1 or not all(affine(graph.operations[v].kind) for v in cone):
            continue
        (product,) = alone
        loops = graph.operations[product].loops
        if loops is None or not (loops.inner and loops.weights) or kept[product]:
            continue
        follow = (graph.operations[v].loops for v in cone)
        split = "rows" not in loops.splits or all(one is not None and "rows" in one.splits for one in follow)
        if split and {root[reader] for reader in readers[product]} == {last} and not _from_outside(graph, cone):
            yield product, last


def _from_outside(graph: OperationGraph, cone: Sequence[int]) -> bool:
    """Whether a kernel reads an input of the graph, directly or through views."""
    inputs = [operation.role == "input" for operation in graph.operations]
    reads = graph.reads()
    for v in graph.topological_order():
        if graph.operations[v].role == "view":
            inputs[v] = any(inputs[u] for u in reads[v])
    return any(inputs[u] for v in cone for u in reads[v])
