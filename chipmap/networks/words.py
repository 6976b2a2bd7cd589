"""How many bytes a number of a graph has, where its tensors tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.common import ImportedGraph


def word_bytes(imported: ImportedGraph, read: Sequence[Sequence[int]]) -> int | None:
    """Bytes of a number: as most parameters of products have it, else most of what products make, else the average
    parameter; None where nothing tells. ``read``: the constants that each operation reads.
    """
    graph, totals = imported.graph, imported.totals
    weights: Counter[int] = Counter()
    results: Counter[int] = Counter()
    written = graph.written_bytes()
    for v, operation in enumerate(graph.operations):
        loops = operation.loops
        if loops is None or not loops.inner or operation.moved_bytes is not None:
            continue
        own = stored(graph, read, [v])
        if loops.weights:
            weights[own // (loops.outer * loops.rows * loops.inner)] += own
        results[written[v] // (loops.outer * loops.rows * loops.columns)] += written[v]
    words = [word for count in (weights, results) for word, _ in count.most_common() if 1 <= word <= 8]
    if totals is not None and totals.numbers:
        words.append(max(1, round(totals.bytes / totals.numbers)))
    return words[0] if words else None


def stored(graph: OperationGraph, read: Sequence[Sequence[int]], operations: Sequence[int]) -> int:
    """Bytes of parameters and constants that operations read, their own and those with several readers, each once
    (``read``: their tensors for each operation)."""
    shared = {t for v in operations for t in read[v]}
    return sum(graph.operations[v].weight_bytes for v in operations) + sum(graph.tensors[t].bytes for t in shared)
