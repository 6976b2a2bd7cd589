"""Llama layers as kernels: training (forward), prefill and decode, with grouped-query attention and a gated FFN."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.records import InputError

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Step = Literal["forward", "prefill", "decode"]


class Llama(NamedTuple):
    """The sizes of a Llama: hidden, query heads, key-value heads, rows of the FFN, layers."""

    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    layers: int


#: Dubey et al., *The Llama 3 Herd of Models*, table 3; the draft is the 68M model of SpecInfer (Miao et al., 2024).
LLAMA = {
    "llama-68m": Llama(768, 12, 12, 3072, 2),
    "llama3-8b": Llama(4096, 32, 8, 14_336, 32),
    "llama3-70b": Llama(8192, 64, 8, 28_672, 80),
    "llama3-405b": Llama(16_384, 128, 8, 53_248, 126),
}


class _Layer:
    """Builds the kernels of one layer; ``tokens`` new ones (columns) attend to ``seen`` (themselves included)."""

    def __init__(self, size: Llama, tokens: int, seen: int, word_bytes: int) -> None:
        self.size, self.tokens, self.seen, self.word_bytes = size, tokens, seen, word_bytes
        self.head = size.hidden // size.heads
        self.kernels: list[Kernel] = []
        self.edges: list[tuple[str, str]] = []

    def add(self, kernel: Kernel, *sources: str) -> None:
        """Append a kernel that reads what ``sources`` make."""
        self.kernels.append(kernel)
        self.edges += [(source, kernel.name) for source in sources]

    def linear(self, name: str, rows: int, columns: int, *sources: str, outer: int = 1) -> None:
        """A gemm with outer · rows × columns weights."""
        kernel = Kernel(name=name, kind="gemm", outer=outer, M=rows, K=columns, N=self.tokens, weights=True)
        self.add(kernel, *sources)

    def element(self, name: str, *sources: str, rows: int = 0, outer: int = 1, flop: int = 1) -> None:
        """An element-wise kernel over ``rows`` (hidden, where 0) of each token."""
        rows = rows or self.size.hidden
        kernel = Kernel(name=name, kind="elementwise", outer=outer, M=rows, N=self.tokens, flop_per_element=flop)
        self.add(kernel, *sources)

    def attention(self, name: str, rows: int, inner: int, *sources: str, fetch: int = 0) -> None:
        """A gemm of two activations per query head, which fetches ``fetch`` bytes of the KV cache."""
        heads = self.size.heads
        kernel = Kernel(name=name, kind="gemm", outer=heads, M=rows, K=inner, N=self.tokens, fetch_bytes=fetch)
        self.add(kernel, *sources)

    def cache(self, name: str, fetch: int, *sources: str) -> None:
        """The published input's kernel that hands on a cached tensor, at 2 FLOP per element.

        Only what is new counts as its output: the rest streams in from DRAM and is never written back.
        """
        size = self.size
        kernel = Kernel(
            name=name,
            kind="elementwise",
            outer=size.kv_heads,
            M=self.head,
            N=self.seen,
            flop_per_element=2,
            output_bytes=size.kv_heads * self.head * self.tokens * self.word_bytes,
            fetch_bytes=fetch,
        )
        self.add(kernel, *sources)


def llama_layer(
    name: str,
    size: Llama,
    *,
    step: Step = "decode",
    tokens: int = 1,
    context: int = 4096,
    gated: bool = True,
    dropout: bool = False,
    cache_kernels: bool = False,
    word_bytes: int = 2,
) -> Workload:
    """A Llama layer: ``forward`` and ``prefill`` of ``tokens`` tokens, ``decode`` of as many after ``context`` others.

    In a decode step the attention fetches kv_heads · head size · context words of keys, and as many of values, from
    DRAM. ``gated`` is the FFN with a gate: down(silu(gate) · up). ``dropout`` and ``cache_kernels`` add the kernels
    that DFModel's published inputs have and the model hasn't. Rotary embeddings are left out (less than 0.1 % of FLOP).
    """
    cached = context if step == "decode" else 0
    layer = _Layer(size, tokens, cached + tokens, word_bytes)
    fetch = size.kv_heads * layer.head * cached * word_bytes
    _attention(layer, fetch, dropout, cache_kernels)
    _ffn(layer, gated, dropout)
    return Workload(
        name=name,
        kernels=tuple(layer.kernels),
        edges=tuple(layer.edges),
        carries=(("Add2", "Add_Prev"),),
        layers=size.layers,
        word_bytes=word_bytes,
        tokens=tokens,
    )


def _attention(layer: _Layer, fetch: int, dropout: bool, cache_kernels: bool) -> None:
    size, head, seen = layer.size, layer.head, layer.seen
    layer.element("Add_Prev")
    layer.element("Norm1", "Add_Prev")
    layer.linear("Q", head, size.hidden, "Norm1", outer=size.heads)
    layer.linear("K", head, size.hidden, "Norm1", outer=size.kv_heads)
    layer.linear("V", head, size.hidden, "Norm1", outer=size.kv_heads)
    keys, values = "K", "V"
    if cache_kernels:
        layer.cache("K_cache", fetch, "K")
        layer.cache("V_cache", fetch, "V")
        keys, values, fetch = "K_cache", "V_cache", 0
    layer.attention("MHA1", seen, head, "Q", keys, fetch=fetch)
    layer.element("Softmax", "MHA1", rows=seen, outer=size.heads)
    weights = "Softmax"
    if dropout:
        layer.element("Dropout1", "Softmax", rows=seen, outer=size.heads)
        weights = "Dropout1"
    layer.attention("MHA2", head, seen, weights, values, fetch=fetch)
    layer.linear("Proj", size.hidden, size.hidden, "MHA2")
    if dropout:
        layer.element("Dropout2", "Proj")
    layer.element("Add1", "Dropout2" if dropout else "Proj", "Add_Prev")


def _ffn(layer: _Layer, gated: bool, dropout: bool) -> None:
    size = layer.size
    layer.element("Norm2", "Add1")
    layer.linear("FFN0", size.ffn, size.hidden, "Norm2")
    if gated:
        layer.linear("Gate", size.ffn, size.hidden, "Norm2")
        layer.element("SiLU", "FFN0", "Gate", rows=size.ffn, flop=2)
    else:
        layer.element("GeLU", "FFN0", rows=size.ffn)
    layer.linear("FFN1", size.hidden, size.ffn, "SiLU" if gated else "GeLU")
    if dropout:
        layer.element("Dropout3", "FFN1")
    layer.element("Add2", "Dropout3" if dropout else "FFN1", "Add1")


def llama_network(
    model: Literal["", "llama-68m", "llama3-8b", "llama3-70b", "llama3-405b"] = "llama3-8b",
    hidden: Count | None = None,
    heads: Count | None = None,
    kv_heads: Count | None = None,
    ffn: Count | None = None,
    layers: Annotated[int, Meta(ge=1, le=10_000)] | None = None,
    step: Step = "decode",
    tokens: Count = 1,
    context: Annotated[int, Meta(ge=0, le=10_000_000)] = 4096,
    gated: bool = True,
    dropout: bool = False,
    cache_kernels: bool = False,
    word_bytes: Annotated[int, Meta(ge=1, le=64)] = 2,
) -> Workload:
    """Llama layers (:func:`llama_layer`): the sizes of ``model``, of which those that are given replace its own."""
    own = LLAMA.get(model)
    given = (hidden, heads, kv_heads, ffn, layers)
    if own is None and None in given:
        missing = Llama._fields[given.index(None)]
        raise InputError("is missing", missing, "Give it, or the name of a model.")
    size = Llama(*(new if new is not None else old for new, old in zip(given, own or given, strict=True)))  # type: ignore[arg-type]
    for many, few in (("hidden", "heads"), ("heads", "kv_heads")):
        if getattr(size, many) % getattr(size, few):
            words = f"is {getattr(size, many)}, not a multiple of {few} = {getattr(size, few)}"
            raise InputError(words, many, "Give a multiple.")
    return llama_layer(
        f"{model or f'llama-{size.hidden}-{size.layers}'}-{step}",
        size,
        step=step,
        tokens=tokens,
        context=context,
        gated=gated,
        dropout=dropout,
        cache_kernels=cache_kernels,
        word_bytes=word_bytes,
    )
