"""A transformer layer whose feed-forward part is a mixture of experts, as kernels."""

from __future__ import annotations

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.dataflow.workloads.gpt import gpt_layer

#: Kernels of a dense layer's feed-forward part, which the experts replace.
_DENSE = ("FFN0", "GeLU", "FFN1", "Dropout3", "Add2")


def moe_layer(
    name: str,
    *,
    hidden: int,
    heads: int,
    inner: int,
    experts: int,
    active: int,
    gated: bool,
    tokens: int,
    layers: int,
    word_bytes: int = 2,
) -> Workload:
    """A GPT layer whose tokens each go to ``active`` of ``experts`` experts of ``inner`` hidden units.

    ``Router`` (experts × hidden) and ``Gate`` (its softmax) choose; ``Dispatch`` hands the tokens out; every expert
    works on ⌈tokens · active / experts⌉ of them (balanced load); ``Combine`` adds ``active`` weighted outputs per
    token. An expert is Up, GeLU, Down, or with ``gated`` Gate, Up, Mul, Down. An edge is its maker's whole output:
    partitions with experts read all of what ``Dispatch`` hands out. Sources: Shazeer et al., *Outrageously Large Neural
    Networks* (2017); Du et al., *GLaM* (2022).
    """
    dense = gpt_layer(name, hidden=hidden, heads=heads, tokens=tokens, layers=layers, word_bytes=word_bytes)
    kernels = [kernel for kernel in dense.kernels if kernel.name not in _DENSE]
    edges = [edge for edge in dense.edges if not set(edge) & set(_DENSE)]
    share = -(-tokens * active // experts)
    kernels += [
        Kernel(name="Router", kind="gemm", M=experts, K=hidden, N=tokens, weights=True),
        Kernel(name="Gate", kind="elementwise", M=experts, N=tokens),
        Kernel(name="Dispatch", kind="elementwise", M=hidden, N=tokens),
    ]
    edges += [("LN2", "Router"), ("Router", "Gate"), ("LN2", "Dispatch"), ("Gate", "Dispatch")]
    for e in range(experts):
        part, inside = _expert(f"Expert{e}_", hidden, inner, share, gated)
        kernels += part
        edges += inside
    kernels += [
        Kernel(name="Combine", kind="elementwise", M=hidden, N=tokens, flop_per_element=2 * active),
        Kernel(name="Add2", kind="elementwise", M=hidden, N=tokens),
    ]
    edges += [(f"Expert{e}_Down", "Combine") for e in range(experts)]
    edges += [("Gate", "Combine"), ("Combine", "Add2"), ("Add1", "Add2")]
    return dense.replace(kernels=tuple(kernels), edges=tuple(edges))


def _expert(
    prefix: str, hidden: int, inner: int, tokens: int, gated: bool
) -> tuple[list[Kernel], list[tuple[str, str]]]:
    def linear(name: str, rows: int, columns: int) -> Kernel:
        return Kernel(name=prefix + name, kind="gemm", M=rows, K=columns, N=tokens, weights=True)

    def element(name: str) -> Kernel:
        return Kernel(name=prefix + name, kind="elementwise", M=inner, N=tokens)

    up, down = linear("Up", inner, hidden), linear("Down", hidden, inner)
    if gated:
        kernels = [linear("Gate", inner, hidden), up, element("Mul"), down]
        pairs = [("Gate", "Mul"), ("Up", "Mul"), ("Mul", "Down")]
    else:
        kernels = [up, element("GeLU"), down]
        pairs = [("Up", "GeLU"), ("GeLU", "Down")]
    entries = [kernel.name for kernel in kernels if kernel.name.endswith(("_Gate", "_Up"))]
    edges = [(prefix + u, prefix + v) for u, v in pairs]
    return kernels, [("Dispatch", name) for name in entries] + edges
