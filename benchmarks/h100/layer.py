"""Whole layers of Llama3-8B: decode, prefill and training, launched one by one, in a CUDA graph, and compiled.

Attention is cuDNN's kernel, the fastest that PyTorch has on this card. What stands before and after it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from benchmarks.h100.elements import rotated
from benchmarks.h100.rows import Row
from benchmarks.h100.timer import Spread, Timer


class Sizes(NamedTuple):
    """hidden, query heads, key heads, numbers of a head, rows of the FFN, words, layers of a whole step."""

    hidden: int
    heads: int
    keys: int
    head: int
    ffn: int
    words: int
    layers: int


LLAMA = Sizes(4096, 32, 8, 128, 14_336, 128_256, 32)
TINY = Sizes(64, 4, 2, 16, 96, 128, 2)
#: Layers with weights of their own, which take turns: more bytes than the cache has.
DISTINCT = 4
BATCHES, CONTEXT, PROMPTS, TRAINED = (1, 8, 64, 256), 2048, (512, 2048, 8192), (2048, 8192)
#: Seconds of nothing else before a layer is called sustained.
BUSY_S = 2.0


class Layer:
    """Weights of a layer. ``joint``: queries, keys and values, and gate and up, are one product each."""

    def __init__(self, torch: Any, size: Sizes, device: str, joint: bool, trained: bool = False) -> None:
        def weight(rows: int, columns: int) -> Any:
            made = torch.randn(rows, columns, dtype=torch.bfloat16, device=device) * columns**-0.5
            return made.requires_grad_(trained)

        ones = torch.ones(size.hidden, dtype=torch.bfloat16, device=device)
        self.norms = [ones.clone().requires_grad_(trained) for _ in range(2)]
        rows = [size.heads * size.head, size.keys * size.head, size.keys * size.head]
        self.reads = [weight(sum(rows), size.hidden)] if joint else [weight(one, size.hidden) for one in rows]
        self.widths, self.size = rows, size
        self.proj = weight(size.hidden, rows[0])
        self.ups = [weight(2 * size.ffn, size.hidden)] if joint else [weight(size.ffn, size.hidden) for _ in range(2)]
        self.down = weight(size.hidden, size.ffn)

    @property
    def parameters(self) -> list[Any]:
        """All of them."""
        return [*self.norms, *self.reads, self.proj, *self.ups, self.down]


def before(nn: Any, one: Layer, x: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
    """Queries, keys and values of x (samples, tokens, hidden), with tokens before heads."""
    normed = nn.rms_norm(x, (one.size.hidden,), one.norms[0], 1e-5)
    made = [nn.linear(normed, weight) for weight in one.reads]
    parts = made[0].split(one.widths, dim=-1) if len(made) == 1 else made
    q, k, v = (part.unflatten(-1, (-1, one.size.head)) for part in parts)
    return rotated(q, cos, sin), rotated(k, cos, sin), v


def after(nn: Any, one: Layer, x: Any, seen: Any) -> Any:
    """The layer's output of its input x and of what attention made."""
    x = x + nn.linear(seen.flatten(2), one.proj)
    normed = nn.rms_norm(x, (one.size.hidden,), one.norms[1], 1e-5)
    ups = [nn.linear(normed, weight) for weight in one.ups]
    gate, up = ups[0].chunk(2, dim=-1) if len(ups) == 1 else ups
    return x + nn.linear(nn.silu(gate) * up, one.down)


class Layers:
    """Measures whole layers on a device."""

    def __init__(self, timer: Timer, tiny: bool) -> None:
        self.timer, self.tiny, self.torch = timer, tiny, timer.torch
        self.nn, self.size = timer.torch.nn.functional, TINY if tiny else LLAMA
        self.modes = ("eager", "graph", "compiled") if timer.cuda else ("eager",)

    def _angles(self, tokens: int) -> tuple[Any, Any]:
        turns = self.torch.randn(tokens, 1, self.size.head, dtype=self.torch.bfloat16, device=self.timer.device)
        return turns.cos(), turns.sin()

    def _attention(self, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads = [one.transpose(1, 2) for one in (q, k, v)]
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if self.timer.cuda else SDPBackend.MATH):
            return self.nn.scaled_dot_product_attention(*heads, is_causal=causal, enable_gqa=True).transpose(1, 2)

    def _random(self, *shape: int) -> Any:
        return self.torch.randn(*shape, dtype=self.torch.bfloat16, device=self.timer.device)

    def _timed(self, mode: str, step: Callable[[], Any]) -> Spread:
        """Eager as the host launches it, else as a graph."""
        timed = self.timer.eager if mode == "eager" else self.timer.graph
        return timed(lambda i: step(), 1)

    def _pieces(self, mode: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What stands before attention and after it."""
        pieces = partial(before, self.nn), partial(after, self.nn)
        if mode != "compiled":
            return pieces
        self.torch.compiler.reset()
        return self.torch.compile(pieces[0], dynamic=False), self.torch.compile(pieces[1], dynamic=False)

    def _layer(self, mode: str, cos: Any, sin: Any, causal: bool) -> Callable[..., Any]:
        """A layer of inference: weights, input, and a cache whose last tokens it writes."""
        first, last = self._pieces(mode)

        def run(one: Layer, x: Any, keys: Any, values: Any) -> Any:
            q, k, v = first(one, x, cos, sin)
            keys[:, -k.shape[1] :].copy_(k)
            values[:, -k.shape[1] :].copy_(v)
            return last(one, x, self._attention(q, keys, values, causal=causal))

        return run

    def decode(self) -> Iterator[Row]:
        """A token of each sample after 2,047 others: a layer in the middle of a step, then a whole step with embedding,
        head and the choice of the likeliest word."""
        torch, size, device = self.torch, self.size, self.timer.device
        layers = [Layer(torch, size, device, joint=True) for _ in range(DISTINCT)]
        table, head = self._random(size.words, size.hidden), self._random(size.words, size.hidden)
        context, angles = 16 if self.tiny else CONTEXT, self._angles(1)
        for batch in (2,) if self.tiny else BATCHES:
            caches = [[self._random(batch, context, size.keys, size.head) for _ in range(2)] for _ in layers]
            x, words = self._random(batch, 1, size.hidden), torch.zeros(batch, 1, dtype=torch.long, device=device)
            sizes: dict[str, Any] = {"batch": batch, "context": context, "heads": size.heads}
            for mode in self.modes:
                each = self._layer(mode, *angles, causal=False)

                def in_turn(x: Any, times: int, each: Any = each, caches: Any = caches) -> Any:
                    for i in range(times):
                        x = each(layers[i % DISTINCT], x, *caches[i % DISTINCT])
                    return x

                def step(words: Any = words, in_turn: Any = in_turn) -> Any:
                    made = in_turn(self.nn.embedding(words, table), size.layers)
                    normed = self.nn.rms_norm(made, (size.hidden,), layers[0].norms[0], 1e-5)
                    return self.nn.linear(normed, head).argmax(-1)

                spread = self._timed(mode, partial(in_turn, x, 2 * DISTINCT)).over(2 * DISTINCT)
                yield Row("layer", "decode", mode, **sizes, **spread._asdict())
                yield Row("step", "decode", mode, **sizes, **self._timed(mode, step)._asdict())

    def prefill(self) -> Iterator[Row]:
        """A layer for one prompt, which writes keys and values to its cache."""
        torch, size, device = self.torch, self.size, self.timer.device
        layers = [Layer(torch, size, device, joint=True) for _ in range(DISTINCT)]
        for tokens in (16,) if self.tiny else PROMPTS:
            cache = [self._random(1, tokens, size.keys, size.head) for _ in range(2)]
            x, angles = self._random(1, tokens, size.hidden), self._angles(tokens)
            for mode in self.modes:
                each = self._layer(mode, *angles, causal=True)

                def in_turn(each: Any = each, x: Any = x, cache: Any = cache) -> Any:
                    for layer in layers:
                        x = each(layer, x, *cache)
                    return x

                spread = self._timed(mode, in_turn).over(DISTINCT)
                yield Row("layer", "prefill", mode, batch=1, context=tokens, heads=size.heads, **spread._asdict())

    def training(self) -> Iterator[Row]:
        """A layer forward, and forward and backward (gradients of input and parameters); what autograd keeps."""
        layer = Layer(self.torch, self.size, self.timer.device, joint=False, trained=True)
        for tokens in (16,) if self.tiny else TRAINED:
            x, angles = self._random(1, tokens, self.size.hidden).requires_grad_(), self._angles(tokens)
            wanted, gradient = [x, *layer.parameters], self._random(1, tokens, self.size.hidden)
            sizes: dict[str, Any] = {"batch": 1, "context": tokens, "heads": self.size.heads}
            for mode in [one for one in self.modes if one != "graph"]:
                first, last = self._pieces(mode)

                def forward(first: Any = first, last: Any = last, x: Any = x, angles: Any = angles) -> Any:
                    return last(layer, x, self._attention(*first(layer, x, *angles), causal=True))

                def both(forward: Any = forward, wanted: Any = wanted, gradient: Any = gradient) -> Any:
                    return self.torch.autograd.grad(forward(), wanted, gradient)

                calls = 4 if self.timer.cuda else 1
                for name, call in (("forward", forward), ("forward+backward", both)):
                    spread = self.timer.queued(lambda i, call=call: call(), calls)  # type: ignore[misc]
                    yield Row("layer", name, mode, **sizes, **spread._asdict())
                spread = self.timer.queued(lambda i: both(), calls, BUSY_S)
                yield Row("layer", "forward+backward", f"{mode} sustained", **sizes, **spread._asdict())
                yield from self._kept(forward, wanted, mode, sizes)

    def _kept(self, made: Callable[[], Any], given: list[Any], mode: str, sizes: dict[str, Any]) -> Iterator[Row]:
        """Bytes of what autograd keeps beside input and parameters: by its hooks, and by the allocator."""
        torch = self.torch
        if mode == "eager":
            yield Row("memory", "saved", mode, **sizes, bytes=self._saved(made, given))
        if self.timer.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            empty = torch.cuda.memory_allocated()
            out = made()
            kept = torch.cuda.memory_allocated() - empty - out.untyped_storage().nbytes()
            yield Row("memory", "allocated", mode, **sizes, bytes=kept)
            gradients = torch.autograd.grad(out, given, torch.ones_like(out))
            yield Row("memory", "peak", mode, **sizes, bytes=torch.cuda.max_memory_allocated() - empty)
            del gradients, out

    def _saved(self, made: Callable[[], Any], given: list[Any]) -> int:
        """Bytes of the storages that autograd saves, without those given and the output."""
        known = {one.untyped_storage().data_ptr() for one in given}
        found: dict[int, int] = {}
        held = []

        def pack(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            held.append(storage)  # so that no address comes twice
            if storage.data_ptr() not in known:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with self.torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
            out = made()
        found.pop(out.untyped_storage().data_ptr(), None)
        return sum(found.values())
