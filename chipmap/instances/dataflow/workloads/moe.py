"""Transformer layers whose feed-forward part is a mixture of experts, as kernels."""

from __future__ import annotations

from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.gpt import gpt_network
from chipmap.instances.dataflow.workloads.layer import Count, Layer, Repeats, WordBytes
from chipmap.records import InputError

#: Kernels of a dense layer's feed-forward part, which the experts replace.
_DENSE = ("FFN0", "GeLU", "FFN1", "Dropout3", "Add2")


def moe_network(
    hidden: Count = 4096,
    heads: Count = 32,
    inner: Count = 14_336,
    experts: Repeats = 8,
    active: Repeats = 2,
    gated: bool = True,
    tokens: Count = 2048,
    layers: Repeats = 32,
    word_bytes: WordBytes = 2,
) -> Workload:
    """GPT layers whose tokens each go to ``active`` of ``experts`` experts of ``inner`` hidden units.

    ``Router`` (experts × hidden) and ``Gate`` (its softmax) choose; ``Dispatch`` hands the tokens out; every expert
    works on ⌈tokens · active / experts⌉ of them (balanced load); ``Combine`` adds ``active`` weighted outputs per
    token. An expert is Up, GeLU, Down, or with ``gated`` Gate, Up, Mul, Down. An edge is its maker's whole output:
    partitions with experts read all of what ``Dispatch`` hands out. Sources: Shazeer et al., *Outrageously Large Neural
    Networks* (2017); Du et al., *GLaM* (2022).
    """
    dense = gpt_network(hidden=hidden, heads=heads, tokens=tokens, layers=layers, word_bytes=word_bytes)
    if active > experts:
        raise InputError(f"is {active}, but there are {experts} experts", "active", "Give no more than experts.")
    made = Layer(tokens)
    made.linear("Router", experts, hidden, "LN2")
    made.element("Gate", experts, "Router")
    made.element("Dispatch", hidden, "LN2", "Gate")
    share = Layer(-(-tokens * active // experts))
    for expert in (f"Expert{e}_" for e in range(experts)):
        if gated:
            share.linear(f"{expert}Gate", inner, hidden, "Dispatch")
        share.linear(f"{expert}Up", inner, hidden, "Dispatch")
        between = f"{expert}Mul" if gated else f"{expert}GeLU"
        share.element(between, inner, *[f"{expert}Gate"] * gated, f"{expert}Up")
        share.linear(f"{expert}Down", hidden, inner, between)
    last = Layer(tokens)
    outputs = [f"Expert{e}_Down" for e in range(experts)]
    last.element("Combine", hidden, *outputs, "Gate", flop_per_element=2 * active)
    last.element("Add2", hidden, "Combine", "Add1")
    kernels = [kernel for kernel in dense.kernels if kernel.name not in _DENSE]
    edges = [edge for edge in dense.edges if not set(edge) & set(_DENSE)]
    return dense.replace(
        name=f"moe-{experts}x{hidden}-{layers}",
        kernels=kernels + made.kernels + share.kernels + last.kernels,
        edges=edges + made.edges + share.edges + last.edges,
    )
