"""GPT layers as kernels: DFModel's published inputs (forward 18 kernels, with backward 41)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.dataflow.workloads.layer import LAYER_NORM, SOFTMAX, Count, Layer, Repeats, WordBytes
from chipmap.instances.dataflow.workloads.llama import refuse_backward, usual_tokens
from chipmap.records import InputError

#: Hidden size, heads, layers.
GPT = {"gpt3-175b": (12_288, 96, 96), "gpt3-1t": (25_600, 160, 128), "gpt3-100t": (160_000, 1000, 330)}

#: Edges by kernel number, 1 to 18 forward and 19 to 41 backward.
_FORWARD_EDGES: tuple[tuple[int, int], ...] = (
    (1, 2), (2, 3), (2, 4), (2, 5), (3, 6), (4, 6), (6, 7), (7, 8), (8, 9), (5, 9), (9, 10), (10, 11), (11, 12),
    (1, 12), (12, 13), (13, 14), (14, 15), (15, 16), (16, 17), (17, 18), (12, 18),
)  # fmt: skip
_BACKWARD_EDGES: tuple[tuple[int, int], ...] = (
    (19, 20), (20, 21), (21, 22), (22, 23), (23, 24), (24, 25), (25, 26), (26, 27), (5, 27), (26, 28), (8, 28),
    (27, 30), (28, 29), (30, 31), (31, 32), (31, 33), (4, 32), (3, 33), (32, 34), (33, 35), (20, 36), (15, 36),
    (22, 37), (13, 37), (25, 38), (9, 38), (28, 39), (2, 39), (33, 40), (2, 40), (32, 41), (2, 41),
)  # fmt: skip
#: What the published backward graph leaves out: the layer's output to the loss, and the gradients of the two residual
#: connections; LN1_b (42) adds up the gradient of the layer's input.
_RESIDUAL_EDGES: tuple[tuple[int, int], ...] = ((18, 19), (19, 24), (24, 42), (29, 42), (34, 42), (35, 42))
#: What each product with weights reads.
_READ = {"FFN1": "GeLU", "FFN0": "LN2", "Proj": "MHA2", "V": "LN1", "K": "LN1", "Q": "LN1"}


def gpt_network(
    hidden: Count = 12_288,
    heads: Count = 96,
    tokens: Count | None = None,
    layers: Repeats = 96,
    backward: bool = False,
    residuals: bool = False,
    word_bytes: WordBytes = 2,
    step: Literal["forward", "prefill", "decode"] = "forward",
    context: Annotated[int, Meta(ge=0, le=10_000_000)] = 2048,
) -> Workload:
    """GPT layers of ``hidden`` with ``heads`` heads over ``tokens`` tokens, with their backward kernels if asked.

    ``forward`` and ``prefill`` are of ``tokens`` tokens (none given: 2048), ``decode`` of as many (1) after ``context``
    others, whose keys and values the attention fetches from DRAM.

    Source: DFModel, figure 2 and its published inputs; the backward edges are those of the published input, which has
    none from forward to the loss and none for the gradients of residual connections. ``residuals`` adds them, with a
    42nd kernel for the gradient of the layer's input, which is carried to the layer before. Raises :class:`InputError`
    for ``residuals`` without ``backward``, and for backward kernels of another step than ``forward``.
    """
    if hidden % heads:
        raise InputError(f"is {hidden}, not a multiple of heads = {heads}", "hidden", "Give a multiple.")
    if residuals and not backward:
        raise InputError("residual gradients need the backward kernels", "residuals", "Set backward to true.")
    tokens, cached = tokens or usual_tokens(step), context if step == "decode" else 0
    kernels = _forward(hidden, heads, tokens, cached, hidden * cached * word_bytes)
    edges, carries = _FORWARD_EDGES, [("Add2", "Add_Prev")]
    if backward:
        refuse_backward(step)
        kernels, edges = kernels + _backward(hidden, heads, tokens), edges + _BACKWARD_EDGES
    if residuals:
        last = Layer(tokens, "backward")
        last.element("LN1_b", hidden, statistics=2 * LAYER_NORM, adds=("V_b", "Q_b", "K_b"))
        kernels += last.kernels
        edges = edges + _RESIDUAL_EDGES
        carries.append(("LN1_b", "Loss_b"))
    return Workload(
        name=f"gpt-{hidden}-{layers}{'-decode' if step == 'decode' else ''}",
        kernels=tuple(kernels),
        edges=tuple((kernels[u - 1].name, kernels[v - 1].name) for u, v in edges),
        carries=tuple(carries),
        layers=layers,
        word_bytes=word_bytes,
        tokens=tokens,
    )


def _forward(hidden: int, heads: int, tokens: int, cached: int, fetch: int) -> list[Kernel]:
    """New tokens attend to ``cached`` ones, whose keys (and values) are ``fetch`` bytes, and to themselves."""
    made, size, wide, seen = Layer(tokens), hidden // heads, 4 * hidden, cached + tokens
    made.element("Add_Prev", hidden)
    made.element("LN1", hidden, statistics=LAYER_NORM)
    for name in "QKV":
        made.linear(name, size, hidden, outer=heads)
    made.gemm("MHA1", seen, size, outer=heads, fetch_bytes=fetch)
    made.element("Softmax", seen, outer=heads, statistics=SOFTMAX)
    made.element("Dropout1", seen, outer=heads)
    made.gemm("MHA2", size, seen, outer=heads, fetch_bytes=fetch)
    made.linear("Proj", hidden, hidden)
    for name in ("Dropout2", "Add1"):
        made.element(name, hidden)
    made.element("LN2", hidden, statistics=LAYER_NORM)
    made.linear("FFN0", wide, hidden)
    made.element("GeLU", wide)
    made.linear("FFN1", hidden, wide)
    for name in ("Dropout3", "Add2"):
        made.element(name, hidden)
    return made.kernels


def _backward(hidden: int, heads: int, tokens: int) -> list[Kernel]:
    made, size, wide = Layer(tokens, "backward"), hidden // heads, 4 * hidden
    for name in ("Loss_b", "Dropout3_b"):
        made.element(name, hidden)
    made.linear("FFN1_b", wide, hidden, parameters_of="FFN1")
    made.element("GeLU_b", wide)
    made.linear("FFN0_b", hidden, wide, parameters_of="FFN0")
    made.element("LN2_b", hidden, statistics=2 * LAYER_NORM)
    made.element("Dropout2_b", hidden)
    made.linear("Proj_b", hidden, hidden, heads=heads, parameters_of="Proj")
    made.gemm("MHA2_b1", tokens, size, outer=heads)
    made.gemm("MHA2_b2", size, tokens, outer=heads)
    made.linear("V_b", hidden, hidden, parameters_of="V")
    made.element("Dropout1_b", tokens, outer=heads)
    made.element("Softmax_b", tokens, outer=heads, statistics=1)
    for name in ("MHA1_b1", "MHA1_b2"):
        made.gemm(name, size, tokens, outer=heads)
    # published with rows by heads, like Q and K and unlike a derivative: which part of parameters they use isn't said
    for name in ("Q_b", "K_b"):
        made.linear(name, size, hidden, outer=heads)
    square = [(name, hidden, hidden) for name in ("Proj", "V", "K", "Q")]
    for name, rows, columns in (("FFN1", wide, hidden), ("FFN0", hidden, wide), *square):
        named = {"parameters_of": name, "operand": _READ[name]}
        made.gemm(f"{name}_u", rows, tokens, N=columns, update=True, **named)
    return made.kernels
