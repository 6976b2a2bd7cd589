"""Transformer layers whose feed-forward part is a mixture of experts, as kernels."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.backward import DENSE
from chipmap.instances.dataflow.workloads.divided import divided
from chipmap.instances.dataflow.workloads.gpt import gpt_network
from chipmap.instances.dataflow.workloads.latent import Latent, latent_attention
from chipmap.instances.dataflow.workloads.layer import RMS_NORM, SOFTMAX, Count, Layer, Repeats, WordBytes
from chipmap.instances.dataflow.workloads.llama import Llama, around, attention, feed_forward, usual_tokens
from chipmap.instances.dataflow.workloads.staged_ends import with_staged_ends
from chipmap.records import InputError

#: Kernels of a dense layer's feed-forward part, which the experts replace.
_DENSE = ("FFN0", "GeLU", "FFN1", "Dropout3", "Add2")


class Mixture(NamedTuple):
    """The sizes of a network of layers with experts, and what of it no such layer holds.

    ``head`` is the size of a head, ``inner`` the hidden units of an expert. ``dense`` layers have a feed-forward part
    of ``dense_inner`` units instead of experts. ``words`` of the vocabulary are embedded, and ranked by a head of their
    own. Where dense layers and layers with experts take ``turns``, a pair of them is one of ``layers`` repetitions.
    """

    hidden: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    experts: int
    active: int
    shared: int
    layers: int
    words: int
    dense: int = 0
    dense_inner: int = 0
    latent: Latent | None = None
    turns: bool = False


#: Jiang et al., *Mixtral of Experts* (2024), table 1, and the configuration of its 8x22B; DeepSeek-AI, *DeepSeek-V3
#: Technical Report* (2024), section 4.2; Yang et al., *Qwen3 Technical Report* (2025), table 2; Meta AI, *The Llama 4
#: herd* (2025); with the configurations published beside the weights.
MIXTURES = {
    "mixtral-8x7b": Mixture(4096, 32, 8, 128, 14_336, 8, 2, 0, 32, 32_000),
    "mixtral-8x22b": Mixture(6144, 48, 8, 128, 16_384, 8, 2, 0, 56, 32_768),
    "qwen3-30b": Mixture(2048, 32, 4, 128, 768, 128, 8, 0, 48, 151_936),
    "qwen3-235b": Mixture(4096, 64, 4, 128, 1536, 128, 8, 0, 94, 151_936),
    "deepseek-v3": Mixture(7168, 128, 128, 128, 2048, 256, 8, 1, 58, 129_280, 3, 18_432, Latent(1536, 512, 128, 64)),
    "llama4-scout": Mixture(5120, 40, 8, 128, 8192, 16, 1, 1, 48, 202_048),
    "llama4-maverick": Mixture(5120, 40, 8, 128, 8192, 128, 1, 1, 24, 202_048, 0, 16_384, turns=True),
}


def moe_network(
    model: Literal[
        "mixtral-8x7b",
        "mixtral-8x22b",
        "qwen3-30b",
        "qwen3-235b",
        "deepseek-v3",
        "llama4-scout",
        "llama4-maverick",
    ] = "mixtral-8x7b",
    hidden: Count | None = None,
    heads: Count | None = None,
    kv_heads: Count | None = None,
    inner: Count | None = None,
    experts: Repeats | None = None,
    active: Repeats | None = None,
    shared: Annotated[int, Meta(ge=0, le=1000)] | None = None,
    step: Literal["forward", "prefill", "decode"] = "forward",
    context: Annotated[int, Meta(ge=0, le=10_000_000)] = 4096,
    stacked: bool = True,
    gated: bool = True,
    backward: bool = False,
    ends: bool = False,
    tokens: Count | None = None,
    layers: Repeats | None = None,
    word_bytes: WordBytes = 2,
    predict: Annotated[int, Meta(ge=0, le=8)] = 0,
    divide: bool = False,
    staged_ends: bool = False,
) -> Workload:
    """Layers whose tokens each go to ``active`` of ``experts`` experts of ``inner`` units, and to all ``shared`` ones.

    Sizes are those of ``model``, of which those that are given replace its own. A
    ``decode`` step has ``tokens`` new tokens after ``context`` others, whose keys and values are fetched from DRAM.
    Without ``tokens`` a decode step has one, the others 2,048.

    ``Router`` (experts × hidden) and ``Gate`` (its softmax) choose; ``Dispatch`` hands out ``active`` copies of each
    token; the experts are a stack: ``Up``, ``Gate`` and ``Down`` are products with tokens · active columns, of whose
    weights a micro-batch reads those that it is expected to use (page, "Routing"); ``Combine`` adds the outputs.
    ``backward`` adds the backward kernels of a forward step, ``ends`` embedding and head, an equal part in every layer,
    ``staged_ends`` as kernels of the pipeline's first and last stage instead.
    ``predict`` modules each predict one more token: a layer more, a product that makes its input of the layers' output
    and the next token's embedding, and a pass through embedding and head (with ``ends``). ``divide`` lets chips have
    experts of their own (scheme E, page "Parallelism"), with tokens split where they go to experts and come back (N).
    Without ``stacked`` each expert has kernels of its own, for tokens · active / experts tokens, after GPT's attention.
    Sources: Shazeer et al., *Outrageously Large Neural Networks* (2017); Du et al., *GLaM* (2022).
    """
    own: dict[str, Any] = {"hidden": hidden, "heads": heads, "kv_heads": kv_heads, "inner": inner, "experts": experts}
    own |= {"active": active, "shared": shared, "layers": layers}
    size = _sized(MIXTURES[model], own, stacked)
    tokens = tokens or usual_tokens(step)
    if predict and not ends:
        raise InputError(f"is {predict}", "predict", "Set ends: what predicts more tokens shares embedding and head.")
    if not stacked:
        if backward or ends or divide:
            needs = "Backward kernels, embedding and head, and experts that chips divide"
            raise InputError("is false", "stacked", f"{needs} need stacked experts.")
        return _separate(size, gated, tokens, word_bytes, step)
    layer, count = _layer(size, tokens, context if step == "decode" else 0, gated, word_bytes), size.layers + predict
    carries = around(layer, step, size.words if ends else 0, count, backward, word_bytes, predict)
    kernels = divided(layer.kernels, size.experts, size.active) if divide else tuple(layer.kernels)
    plain = f"{model}-{step}" if size == MIXTURES[model] else f"moe-{size.experts}x{size.hidden}-{size.layers}-{step}"
    made = Workload(
        name=f"{plain}-mtp{predict}" if predict else plain,
        kernels=kernels,
        edges=tuple(layer.edges),
        carries=carries,
        layers=count,
        word_bytes=word_bytes,
        tokens=tokens,
    )
    return with_staged_ends(made, size.hidden, size.words) if staged_ends else made


def _layer(size: Mixture, tokens: int, cached: int, gated: bool, word_bytes: int) -> Layer:
    """Attention and a stack of experts; before them a layer without experts where these take turns."""
    layer = Layer(tokens)
    if size.turns:
        layer.prefix = DENSE
        _attend(layer, size, cached, word_bytes)
        feed_forward(layer, size.hidden, size.dense_inner, gated)
        layer.prefix = ""
    _attend(layer, size, cached, word_bytes)
    if size.turns:
        layer.edges.append((f"{DENSE}Add2", "Add_Prev"))
    _stack(layer, size, gated, word_bytes)
    return layer


def _sized(size: Mixture, own: dict[str, Any], stacked: bool) -> Mixture:
    """The sizes with those of ``own`` that aren't None; :class:`InputError` where they don't fit each other."""
    size = size._replace(**{name: value for name, value in own.items() if value is not None})
    if own["kv_heads"] is None and (own["heads"] is not None or not stacked):
        size = size._replace(kv_heads=size.heads)
    if own["hidden"] is not None or own["heads"] is not None:
        size = size._replace(head=max(1, size.hidden // size.heads))
    if size.active > size.experts:
        words = f"is {size.active}, but there are {size.experts} experts"
        raise InputError(words, "active", "Give no more than experts.")
    for many, few in (("hidden", "heads"), ("heads", "kv_heads")):
        if getattr(size, many) % getattr(size, few):
            words = f"is {getattr(size, many)}, not a multiple of {few} = {getattr(size, few)}"
            raise InputError(words, many, "Give a multiple.")
    return size


def _attend(layer: Layer, size: Mixture, cached: int, word_bytes: int) -> None:
    """Attention to ``cached`` tokens and the new ones, through a latent or by heads."""
    if size.latent:
        latent_attention(layer, size.hidden, size.heads, size.latent, cached, word_bytes)
    else:
        llama = Llama(size.hidden, size.heads, size.kv_heads, 0, size.layers)
        attention(layer, llama, cached, word_bytes, size.head)


def _stack(layer: Layer, size: Mixture, gated: bool, word_bytes: int) -> None:
    """The feed-forward part with all experts in one kernel per product."""
    columns = layer.tokens * size.active
    layer.element("Norm2", size.hidden, "Add1", statistics=RMS_NORM)
    layer.linear("Router", size.experts, size.hidden, "Norm2")
    layer.element("Gate", size.experts, "Router", statistics=SOFTMAX)
    layer.element("Dispatch", size.hidden, "Norm2", "Gate", N=columns, flop_per_element=0)

    def product(name: str, rows: int, inner: int, reads: str) -> None:
        routed = {"experts": size.experts, "active": size.active, "N": columns}
        layer.linear(name, rows, inner, reads, weight_bytes=size.experts * rows * inner * word_bytes, **routed)

    product("Experts_Up", size.inner, size.hidden, "Dispatch")
    if gated:
        product("Experts_Gate", size.inner, size.hidden, "Dispatch")
    sources = ("Experts_Up", "Experts_Gate") if gated else ("Experts_Up",)
    layer.element("Experts_Act", size.inner, *sources, N=columns, flop_per_element=1 + gated)
    product("Experts_Down", size.hidden, size.inner, "Experts_Act")
    added = ["Experts_Down", "Gate"]
    if size.shared:
        rows = size.shared * size.inner
        sources = ("Shared_Up", "Shared_Gate") if gated else ("Shared_Up",)
        for name in sources:
            layer.linear(name, rows, size.hidden, "Norm2")
        layer.element("Shared_Act", rows, *sources, flop_per_element=1 + gated)
        layer.linear("Shared_Down", size.hidden, rows, "Shared_Act")
        added.append("Shared_Down")
    layer.element("Combine", size.hidden, *added, flop_per_element=2 * size.active + bool(size.shared))
    layer.element("Add2", size.hidden, "Combine", "Add1")


def _separate(size: Mixture, gated: bool, tokens: int, word_bytes: int, step: str) -> Workload:
    """GPT layers, every expert with kernels of its own, which read all of what ``Dispatch`` hands out."""
    hidden, inner, experts, active, layers = size.hidden, size.inner, size.experts, size.active, size.layers
    if step == "decode" or size.shared or size.kv_heads != size.heads:
        raise InputError("is false", "stacked", "Decode steps, shared experts and fewer kv_heads need stacked experts.")
    if tokens * active < experts:
        words = f"is false, but {tokens * active} copies of tokens can't reach {experts} experts"
        raise InputError(words, "stacked", "Leave it out: a stack of experts counts the expected ones.")
    dense = gpt_network(hidden=hidden, heads=size.heads, tokens=tokens, layers=layers, word_bytes=word_bytes)
    made = Layer(tokens)
    made.linear("Router", experts, hidden, "LN2")
    made.element("Gate", experts, "Router", statistics=SOFTMAX)
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
