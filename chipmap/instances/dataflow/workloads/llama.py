"""Llama layers as kernels: training (forward), prefill and decode, with grouped-query attention and a gated FFN."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.backward import add_backward, add_ends
from chipmap.instances.dataflow.workloads.divided import by_context, by_grid, by_samples, by_tokens
from chipmap.instances.dataflow.workloads.layer import RMS_NORM, SOFTMAX, Count, Layer, Repeats, WordBytes
from chipmap.instances.dataflow.workloads.staged_ends import with_staged_ends
from chipmap.records import InputError


class Llama(NamedTuple):
    """The sizes of a Llama: hidden, query heads, key-value heads, rows of the FFN, layers, words of the vocabulary."""

    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    layers: int
    words: int = 0


class Extras(NamedTuple):
    """What else a layer has: dropouts and kernels of the KV cache (DFModel's published inputs), the rotation of queries
    and keys, and the kernel that makes what scales and shifts norms and sums (``modulated``; of a diffusion model).
    ``statistics`` are those of its norms."""

    dropout: bool = False
    cache_kernels: bool = False
    rotary: bool = False
    modulated: str = ""
    statistics: int = RMS_NORM


class Beside(NamedTuple):
    """Samples that decode one token each beside a piece of a prompt, each after ``context`` tokens of its own."""

    samples: int = 0
    context: int = 0


#: Dubey et al., *The Llama 3 Herd of Models*, table 3; the draft is the 68M model of SpecInfer (Miao et al., 2024).
LLAMA = {
    "llama-68m": Llama(768, 12, 12, 3072, 2, 32_000),
    "llama3-8b": Llama(4096, 32, 8, 14_336, 32, 128_256),
    "llama3-70b": Llama(8192, 64, 8, 28_672, 80, 128_256),
    "llama3-405b": Llama(16_384, 128, 8, 53_248, 126, 128_256),
}


def llama_network(
    model: Literal["", "llama-68m", "llama3-8b", "llama3-70b", "llama3-405b"] = "llama3-8b",
    hidden: Count | None = None,
    heads: Count | None = None,
    kv_heads: Count | None = None,
    ffn: Count | None = None,
    layers: Repeats | None = None,
    words: Count | None = None,
    step: Literal["forward", "prefill", "decode"] = "decode",
    tokens: Count | None = None,
    context: Annotated[int, Meta(ge=0, le=10_000_000)] = 4096,
    gated: bool = True,
    dropout: bool = False,
    cache_kernels: bool = False,
    backward: bool = False,
    ends: bool = False,
    word_bytes: WordBytes = 2,
    rotary: bool = False,
    split_tokens: bool = False,
    staged_ends: bool = False,
    split_samples: bool = False,
    split_context: bool = False,
    split_weights: bool = False,
    beside: Annotated[int, Meta(ge=0, le=1_000_000)] = 0,
    beside_context: Annotated[int, Meta(ge=0, le=10_000_000)] = 4096,
) -> Workload:
    """Llama layers: ``forward`` and ``prefill`` of ``tokens`` tokens, ``decode`` of as many after ``context`` others.
    Without ``tokens`` a decode step has one, the others 2,048. So a piece of a prompt is a decode step with its tokens,
    and ``context`` those of the pieces before it. With ``beside`` as many samples decode a token each in the same step,
    after ``beside_context`` tokens of their own (page, "Prefill in pieces").

    The sizes are those of ``model``, of which those that are given replace its own. In a decode step the attention
    fetches kv_heads · head size · context words of keys, and as many of values, from DRAM. ``gated`` is the FFN with a
    gate: down(silu(gate) · up). ``dropout`` and ``cache_kernels`` add the kernels that DFModel's published inputs have
    and the model hasn't. ``rotary`` adds the rotation of queries and keys (less than 0.1 % of FLOP), ``backward`` the
    backward kernels of a forward step; ``ends`` the embedding of ``words`` words and the head that ranks them, an equal
    part in every layer, ``staged_ends`` as kernels of the pipeline's first and last stage instead. With
    ``split_tokens`` chips may share out tokens, too (page, "Parallelism"), with ``split_samples`` whole samples of the
    attention, with ``split_context`` the tokens of its context, with ``split_weights`` rows and terms of the FFN over
    different dimensions (page, "Tensor parallelism over several dimensions").
    """
    unread = not (ends or staged_ends or model in LLAMA)
    size = sized(model, (hidden, heads, kv_heads, ffn, layers, 0 if words is None and unread else words))
    if cache_kernels and backward:
        raise InputError("have no backward kernels", "cache_kernels", "Leave out one of the two.")
    tokens = tokens or usual_tokens(step)
    if beside and (step != "decode" or cache_kernels or split_tokens or split_samples or split_context):
        what = "needs step=decode, without cache_kernels, split_tokens, split_samples and split_context"
        raise InputError(what, "beside", "Leave it out, or change these.")
    tokens += beside
    if ends and staged_ends:
        raise InputError("are asked for in every layer, too", "staged_ends", "Leave out ends.")
    layer = Layer(tokens)
    extras = Extras(dropout, cache_kernels, rotary)
    others = Beside(beside, beside_context)
    attention(layer, size, context if step == "decode" else 0, word_bytes, extras=extras, beside=others)
    feed_forward(layer, size.hidden, size.ffn, gated, extras)
    carries = around(layer, step, size.words if ends else 0, size.layers, backward, word_bytes)
    kernels = by_tokens(layer.kernels, layer.edges) if split_tokens else tuple(layer.kernels)
    kernels = by_context(kernels, layer.edges) if split_context else kernels
    kernels = by_grid(kernels, layer.edges) if split_weights else kernels
    made = Workload(
        name=f"{model or f'llama-{size.hidden}-{size.layers}'}-{step}",
        kernels=by_samples(kernels) if split_samples else kernels,
        edges=tuple(layer.edges),
        carries=carries,
        layers=size.layers,
        word_bytes=word_bytes,
        tokens=tokens,
    )
    return with_staged_ends(made, size.hidden, size.words) if staged_ends else made


def sized(model: str, given: tuple[int | None, ...]) -> Llama:
    """The sizes of ``model``, of which those that are ``given`` replace its own.

    Raises :class:`InputError` for a size that neither has, and for heads that don't share out evenly.
    """
    own = LLAMA.get(model)
    if own is None and None in given:
        missing = Llama._fields[given.index(None)]
        raise InputError("is missing", missing, "Give it, or the name of a model.")
    size = Llama(*(new if new is not None else old for new, old in zip(given, own or given, strict=True)))  # type: ignore[arg-type]
    for many, few in (("hidden", "heads"), ("heads", "kv_heads")):
        if getattr(size, many) % getattr(size, few):
            what = f"is {getattr(size, many)}, not a multiple of {few} = {getattr(size, few)}"
            raise InputError(what, many, "Give a multiple.")
    return size


def around(
    layer: Layer, step: str, words: int, layers: int, backward: bool, word_bytes: int, predict: int = 0
) -> tuple[tuple[str, str], ...]:
    """Add what is asked of embedding, head and backward kernels to a layer from its first kernel to ``Add2``.

    ``predict`` further tokens are predicted, each by a pass through the head. Returns what it hands to the next layer,
    and backward ones to the one before. Raises :class:`InputError` for backward kernels of a prefill or a decode step.
    """
    first = layer.kernels[0]
    carries: list[tuple[str, str]] = [("Add2", first.name)]
    if words:
        add_ends(layer, first, words, layers, word_bytes, predict)
    if backward:
        refuse_backward(step)
        carries.append(add_backward(layer, word_bytes, first.name))
    return tuple(carries)


def usual_tokens(step: str) -> int:
    """Tokens of a sample where nothing else is said: one in a decode step, 2,048 in others."""
    return 1 if step == "decode" else 2048


def refuse_backward(step: str) -> None:
    """Raise :class:`InputError` for a step that has no backward kernels."""
    if step != "forward":
        what = f"is true, but a {step} step has no backward kernels"
        raise InputError(what, "backward", "Give step=forward, or leave it out.")


def attention(
    layer: Layer,
    size: Llama,
    cached: int,
    word_bytes: int,
    head: int = 0,
    extras: Extras | None = None,
    beside: Beside | None = None,
) -> None:
    """New tokens attend to ``cached`` ones and to themselves: gemms of two activations per query head, of ``head``
    numbers (0: hidden / heads). A rotation is two products and a sum per number. Of the layer's tokens those of samples
    ``beside`` attend to their own contexts instead."""
    extras, beside = extras or Extras(), beside or Beside()
    hidden, heads, head, new = size.hidden, size.heads, head or size.hidden // size.heads, layer.tokens - beside.samples
    seen = cached + new
    words = size.kv_heads * head * word_bytes
    layer.element("Add_Prev", hidden)
    _norm(layer, "Norm1", hidden, "Add_Prev", extras)
    for name, outer in (("Q", heads), ("K", size.kv_heads), ("V", size.kv_heads)):
        layer.linear(name, head, hidden, "Norm1", outer=outer, heads=int(outer == 1))
    queries, keys, values, fetch = "Q", "K", "V", words * cached
    if extras.rotary:
        for name, outer in ((queries, heads), (keys, size.kv_heads)):
            layer.element(f"Rotary_{name}", head, name, outer=outer, heads=int(outer == 1), flop_per_element=3)
        queries, keys = "Rotary_Q", "Rotary_K"
    if extras.cache_kernels:
        # The published input's kernels that hand on a cached tensor, at 2 FLOP per element. Only what is new counts as
        # their output: the rest streams in from DRAM and is never written back.
        fields = {
            "outer": size.kv_heads,
            "heads": int(size.kv_heads == 1),
            "N": seen,
            "flop_per_element": 2,
            "output_bytes": words * layer.tokens,
        }
        for name, made in (("K", keys), ("V", values)):
            layer.element(f"{name}_cache", head, made, fetch_bytes=fetch, **fields)
        keys, values, fetch = "K_cache", "V_cache", 0
    reads = queries, keys, values
    read = [_attend(layer, size, head, reads, "", (new, seen, fetch), extras)]
    if beside.samples:
        own = beside.samples, beside.context + 1, words * beside.context * beside.samples
        read.append(_attend(layer, size, head, reads, "_Beside", own, extras))
    layer.linear("Proj", hidden, heads * head, *read)
    _added(layer, 1, hidden, "Proj", "Add_Prev", extras)


def _attend(
    layer: Layer,
    size: Llama,
    head: int,
    reads: tuple[str, str, str],
    suffix: str,
    counts: tuple[int, int, int],
    extras: Extras,
) -> str:
    """The attention of (new tokens, tokens that each attends to, bytes of cached keys, and as many of values); the name
    of its last kernel. ``reads`` make queries, keys and values."""
    heads, (queries, keys, values), (new, seen, fetch) = size.heads, reads, counts
    cache = {"fetch_bytes": fetch, "fetch_outer": size.kv_heads if fetch and size.kv_heads < heads else 0}
    names = [f"{name}{suffix}" for name in ("MHA1", "Softmax", "Dropout1", "MHA2")]
    layer.gemm(names[0], seen, head, queries, keys, outer=heads, N=new, **cache)
    layer.element(names[1], seen, names[0], outer=heads, N=new, statistics=SOFTMAX)
    if extras.dropout:
        layer.element(names[2], seen, names[1], outer=heads, N=new)
    layer.gemm(names[3], head, seen, names[2 if extras.dropout else 1], values, outer=heads, N=new, **cache)
    return names[3]


def feed_forward(layer: Layer, hidden: int, ffn: int, gated: bool, extras: Extras | None = None) -> None:
    """A norm, a product to ``ffn`` rows (``gated``: two), an activation, a product back, and the sum."""
    extras = extras or Extras()
    _norm(layer, "Norm2", hidden, "Add1", extras)
    layer.linear("FFN0", ffn, hidden, "Norm2")
    if gated:
        layer.linear("Gate", ffn, hidden, "Norm2")
        layer.element("SiLU", ffn, "FFN0", "Gate", flop_per_element=2)
    else:
        layer.element("GeLU", ffn, "FFN0")
    layer.linear("FFN1", hidden, ffn, "SiLU" if gated else "GeLU")
    _added(layer, 2, hidden, "FFN1", "Add1", extras)


def _norm(layer: Layer, name: str, hidden: int, read: str, extras: Extras) -> None:
    """A norm, and where it is modulated a product and a sum per number."""
    if extras.modulated:
        layer.element(name, hidden, read, extras.modulated, flop_per_element=3, statistics=extras.statistics)
    else:
        layer.element(name, hidden, read, statistics=extras.statistics)


def _added(layer: Layer, which: int, hidden: int, made: str, before: str, extras: Extras) -> None:
    """The sum ``which`` of a layer, after a dropout (the layer's second and third), or scaled by what modulates it."""
    if extras.dropout:
        layer.element(f"Dropout{which + 1}", hidden, made)
        made = f"Dropout{which + 1}"
    if extras.modulated:
        layer.element(f"Scale{which}", hidden, made, extras.modulated)
        made = f"Scale{which}"
    layer.element(f"Add{which}", hidden, made, before)
