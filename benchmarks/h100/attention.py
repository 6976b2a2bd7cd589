"""Attention as one kernel: prefill, decoding, and forward with backward, heads of 128 numbers and 8 key heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.h100.rows import Row
from benchmarks.h100.timer import Pool, Timer

HEAD, KEY_HEADS = 128, 8
HEADS = (32, 64)
PROMPTS = (512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (512, 1024, 2048, 4096, 8192, 16_384)
#: (batch, tokens) of training.
TRAINED = ((1, 2048), (4, 2048), (1, 4096), (1, 8192))
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
POOL = 8_700_000_000


class Attention:
    """Operands of all shapes: numbers of a pool, tokens before heads."""

    def __init__(self, timer: Timer, tiny: bool) -> None:
        self.timer, self.tiny, self.torch = timer, tiny, timer.torch
        self.pool = Pool(timer, 2 * 10**6 if tiny else POOL, timer.torch.bfloat16)
        self.backends = ("math",) if not timer.cuda else tuple(BACKENDS)

    def _sdpa(self, backend: str, q: Any, k: Any, v: Any, *, causal: bool) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        if backend == "math":
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        with sdpa_kernel(getattr(SDPBackend, BACKENDS[backend])):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    def _operands(self, i: int, batch: int, queries: int, context: int, heads: int) -> list[Any]:
        shapes = ((queries, heads), (context, KEY_HEADS), (context, KEY_HEADS))
        pieces = [self.pool.piece(2 * i + j, batch, *shape, HEAD) for j, shape in enumerate(shapes)]
        return [one.transpose(1, 2) for one in pieces]

    def _tried(self, name: str, backend: str, *sizes: int) -> list[Row]:
        """The row, or none where the backend refuses the shape."""
        try:
            return [self._row(name, backend, *sizes)]
        except RuntimeError as error:
            print(f"{name} {backend} {sizes}: {str(error).splitlines()[0]}", flush=True)
            return []

    def _row(self, name: str, backend: str, batch: int, queries: int, context: int, heads: int) -> Row:
        causal = queries > 1
        flop = 4 * batch * heads * queries * context * HEAD // (2 if causal else 1)
        touched = 4 * batch * HEAD * (heads * queries + KEY_HEADS * context)
        copies = self.timer.copies(touched, self.pool.room(batch * context * KEY_HEADS * HEAD) // 3 or 1)

        def call(i: int) -> Any:
            return self._sdpa(backend, *self._operands(i % copies, batch, queries, context, heads), causal=causal)

        spread = self.timer.graph(call, self.timer.calls(flop, touched, copies))
        sizes: dict[str, Any] = {"batch": batch, "context": context, "heads": heads, "flop": flop, "bytes": touched}
        return Row("attention", name, backend, **sizes, **spread._asdict())

    def inference(self) -> Iterator[Row]:
        """Causal prefill, then one token of each sample."""
        for backend in self.backends:
            for heads in HEADS:
                for tokens in (16,) if self.tiny else PROMPTS:
                    yield from self._tried("prefill", backend, 1, tokens, tokens, heads)
                for batch in (2,) if self.tiny else BATCHES:
                    for context in (16,) if self.tiny else CONTEXTS:
                        yield from self._tried("decode", backend, batch, 1, context, heads)

    def training(self) -> Iterator[Row]:
        """Causal attention that keeps what its backward pass needs, and that pass alone."""
        for backend in self.backends:
            for heads in HEADS:
                for batch, tokens in ((1, 16),) if self.tiny else TRAINED:
                    yield from self._trained(backend, heads, batch, tokens)

    def _trained(self, backend: str, heads: int, batch: int, tokens: int) -> Iterator[Row]:
        torch, timer = self.torch, self.timer
        flop = 2 * batch * heads * tokens**2 * HEAD
        touched = 4 * batch * HEAD * tokens * (heads + KEY_HEADS)
        copies = min(3, timer.copies(touched))
        sets = [
            [one.detach().requires_grad_() for one in self._operands(i, batch, tokens, tokens, heads)]
            for i in range(copies)
        ]
        outs = [self._sdpa(backend, *one, causal=True) for one in sets]
        grads = [torch.randn_like(one) for one in outs]
        sizes: dict[str, Any] = {"batch": batch, "context": tokens, "heads": heads}

        def forward(i: int) -> Any:
            return self._sdpa(backend, *sets[i % copies], causal=True)

        def backward(i: int) -> Any:
            at = i % copies
            return torch.autograd.grad(outs[at], sets[at], grads[at], retain_graph=True)

        calls = timer.calls(flop, touched, 1)
        spread = timer.queued(forward, calls)
        yield Row("attention", "training", backend, **sizes, flop=flop, bytes=touched, **spread._asdict())
        spread = timer.queued(backward, calls)
        more: dict[str, Any] = {"flop": flop * 5 // 2, "bytes": 2 * touched}
        yield Row("attention", "backward", backend, **sizes, **more, **spread._asdict())
