"""Embedding and head as kernels of the pipeline's first and last stage (page, "Uneven stages")."""

from __future__ import annotations

from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.layer import RMS_NORM, SOFTMAX, Layer


def with_staged_ends(workload: Workload, hidden: int, words: int) -> Workload:
    """``workload`` with a table of ``words`` rows before its layers, and a norm, the head and a softmax behind them;
    with their backward kernels where it has a backward phase.

    Chips of a group share out the table's columns and the head's rows; sequences are split by rows between.
    """
    backward = any(kernel.phase == "backward" for kernel in workload.kernels)
    first, last = Layer(workload.tokens), Layer(workload.tokens)
    size, split = hidden * workload.word_bytes, {"schemes": ("M",)}
    looked_up = size * workload.tokens
    table = {"table_bytes": words * size, "fetch_bytes": looked_up, "output_bytes": looked_up, "flop": 0}
    first.element("Embed", hidden, **table, **split)
    last.element("Last_Norm", hidden, statistics=RMS_NORM, **split)
    last.linear("Head", words, hidden, "Last_Norm", **split)
    last.element("Logits", words, "Head", statistics=SOFTMAX, **split)
    if backward:
        _backward(first, last, hidden, words, workload)
    ends = {"first": tuple(first.kernels), "last": tuple(last.kernels), "end_edges": (*first.edges, *last.edges)}
    # a layer's gradient comes from the next one: its own output need not be kept for it
    edges = tuple(edge for edge in workload.edges if edge != ("Add2", "Loss_b"))
    return workload.replace(edges=edges, **ends)


def _backward(first: Layer, last: Layer, hidden: int, words: int, workload: Workload) -> None:
    last.phase = first.phase = "backward"
    split, weights = {"schemes": ("M",)}, words * hidden * workload.word_bytes
    last.element("Logits_b", words, "Logits", **split)
    last.linear("Head_b", hidden, words, "Logits_b", parameters_of="Head", schemes=("K_RS",))
    made = {"N": hidden, "update": True, "output_bytes": weights, "parameters_of": "Head", "operand": "Last_Norm"}
    last.gemm("Head_u", words, workload.tokens, "Logits_b", "Last_Norm", **made, **split)
    last.element("Last_Norm_b", hidden, "Head_b", "Last_Norm", statistics=2 * RMS_NORM, flop_per_element=2, **split)
    added = {"flop": hidden * workload.tokens, "output_bytes": weights, "weight_bytes": 0}
    first.add("Embed_u", "opaque", 1, update=True, parameters_of="Embed", **added, **split)
