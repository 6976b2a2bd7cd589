"""Element-wise kernels of a Llama layer, as PyTorch runs them one by one and as its compiler joins them; copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.h100.rows import Row
from benchmarks.h100.timer import Pool, Timer

TOKENS, TRAINED = (8192, 2048, 512, 256, 128, 64, 32, 8, 1), (8192, 2048)
#: hidden, rows of the FFN, query and key heads.
WIDTHS = ((4096, 14_336, 32, 8), (8192, 28_672, 64, 8))
WORDS, HEAD = 128_256, 128
#: Kernels whose backward pass is measured.
BACKWARD = ("rms_norm", "rms_norm_written", "swiglu", "rotary")
#: Kernels that order a token's scores, and the most tokens; those that aren't compiled.
SELECTED, MOST_SORTED = ("topk", "sort"), 256
EAGER = (*SELECTED, "rms_norm_written")
#: Bytes of copies, as powers of two.
POWERS = range(12, 34)
POOL = 4_400_000_000


class Kernel(NamedTuple):
    """An element-wise kernel: its name, numbers of each operand per token, of the output, FLOP per token, and what it
    does with the operands (each tokens × its numbers)."""

    name: str
    reads: tuple[int, ...]
    writes: int
    flop: int
    run: Callable[..., Any]


def rotated(q: Any, cos: Any, sin: Any) -> Any:
    """Queries or keys (… heads × head numbers) turned by their places, as published code has it."""
    first, second = q.chunk(2, dim=-1)
    from torch import cat

    return q * cos + cat((-second, first), dim=-1) * sin


def kernels(torch: Any, device: str, hidden: int, ffn: int, heads: int, key_heads: int) -> list[Kernel]:
    """The kernels of a layer of these sizes."""
    nn, scale = torch.nn.functional, torch.ones(hidden, dtype=torch.bfloat16, device=device)

    def written(x: Any) -> Any:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return scale * normed.to(x.dtype)

    def rotary(x: Any, cos: Any, sin: Any) -> Any:
        return rotated(x.view(len(x), -1, HEAD), cos.view(-1, 1, HEAD), sin.view(-1, 1, HEAD))

    def add_norm(x: Any, y: Any) -> Any:
        total = x + y
        return total, nn.rms_norm(total, (hidden,), scale, 1e-5)

    turned = (heads + key_heads) * HEAD
    return [
        Kernel("rms_norm", (hidden,), hidden, 4 * hidden, lambda x: nn.rms_norm(x, (hidden,), scale, 1e-5)),
        Kernel("rms_norm_written", (hidden,), hidden, 4 * hidden, written),
        Kernel("swiglu", (ffn, ffn), ffn, 4 * ffn, lambda g, u: nn.silu(g) * u),
        Kernel("residual_add", (hidden, hidden), hidden, hidden, lambda x, y: x + y),
        Kernel("add_norm", (hidden, hidden), 2 * hidden, 5 * hidden, add_norm),
        Kernel("rotary", (turned, HEAD, HEAD), turned, 3 * turned, rotary),
        Kernel("to_fp8", (hidden,), hidden // 2, hidden, lambda x: (x * 0.5).to(torch.float8_e4m3fn)),
    ]


def vocabulary(torch: Any) -> list[Kernel]:
    """What is done with a token's scores."""
    return [
        Kernel("softmax", (WORDS,), WORDS, 5 * WORDS, lambda x: torch.softmax(x, -1)),
        Kernel("argmax", (WORDS,), 0, WORDS, lambda x: torch.argmax(x, -1)),
        Kernel("topk", (WORDS,), 0, WORDS, lambda x: torch.topk(x, 50)),
        Kernel("sort", (WORDS,), 5 * WORDS, 0, lambda x: torch.sort(x, descending=True)),
    ]


class Elements:
    """Operands of element-wise kernels."""

    def __init__(self, timer: Timer, tiny: bool) -> None:
        self.timer, self.tiny, self.torch = timer, tiny, timer.torch
        self.pool = Pool(timer, 10**6 if tiny else POOL, timer.torch.bfloat16)

    def rows(self) -> Iterator[Row]:
        """Each kernel as it is, and compiled (the smaller width alone: a width is compiled anew)."""
        for widths in ((64, 96, 2, 1),) if self.tiny else WIDTHS:
            listed = kernels(self.torch, self.timer.device, *widths)
            listed += vocabulary(self.torch) if widths == WIDTHS[0] else []
            for one in listed:
                yield from self._sizes(one, "eager", one.run)
                if self.timer.cuda and widths == WIDTHS[0] and one.name not in EAGER:
                    compiled = self.torch.compile(one.run, dynamic=True)
                    yield from self._sizes(one, "compiled", compiled)
                    if one.reads[0] < WORDS:
                        yield from self._sizes(one, "cached", compiled)

    def _sizes(self, one: Kernel, mode: str, run: Callable[..., Any]) -> Iterator[Row]:
        for tokens in (4, 2) if self.tiny else TOKENS:
            if tokens * sum(one.reads) > self.pool.numbers // 2 or (one.name in SELECTED and tokens > MOST_SORTED):
                continue
            try:
                yield self._row(one, mode, run, tokens)
            except Exception as error:  # a compiler that fails leaves the others to be measured
                print(f"{one.name} {mode} {tokens}: {type(error).__name__} {str(error)[:200]}", flush=True)
                return

    def _row(self, one: Kernel, mode: str, run: Callable[..., Any], tokens: int) -> Row:
        touched = 2 * tokens * (sum(one.reads) + one.writes)
        room = min(self.pool.room(tokens * width) for width in one.reads) // len(one.reads)
        copies = 1 if mode == "cached" else self.timer.copies(touched, room)

        def call(i: int) -> Any:
            at = i % copies * len(one.reads)
            return run(*(self.pool.piece(at + j, tokens, width) for j, width in enumerate(one.reads)))

        spread = self.timer.graph(call, self.timer.calls(0, touched, copies))
        sizes: dict[str, Any] = {"m": tokens, "n": one.reads[0], "flop": tokens * one.flop, "bytes": touched}
        return Row("element", one.name, mode, **sizes, **spread._asdict())

    def backward(self) -> Iterator[Row]:
        """The backward pass of each kernel of a layer, as PyTorch runs it."""
        grad = self.torch.autograd.grad
        for one in kernels(self.torch, self.timer.device, *((64, 96, 2, 1) if self.tiny else WIDTHS[0])):
            for tokens in (4,) if self.tiny else TRAINED if one.name in BACKWARD else ():
                operands = [self.pool.piece(j, tokens, width).detach() for j, width in enumerate(one.reads)]
                learned = operands[: len(one.reads) if one.name != "rotary" else 1]
                for operand in learned:
                    operand.requires_grad_()
                out = one.run(*operands)
                made = self.torch.randn_like(out) if one.writes == one.reads[0] else None
                if made is None:
                    continue

                def call(i: int, out: Any = out, learned: Any = learned, made: Any = made) -> Any:
                    return grad(out, learned, made, retain_graph=True)

                # reads the gradient and the operands, writes their gradients
                touched = 2 * tokens * (one.writes + sum(one.reads) + sum(one.reads[: len(learned)]))
                spread = self.timer.queued(call, self.timer.calls(0, touched, 1))
                yield Row("element", one.name, "backward", m=tokens, n=one.reads[0], bytes=touched, **spread._asdict())

    def copies(self) -> Iterator[Row]:
        """DRAM that is read (summed up), written, and copied, by CUDA's own copy and by a kernel, for sizes of one
        operand."""
        torch, pool = self.torch, self.pool
        target = torch.empty_like(pool.all)
        for power in (12,) if self.tiny else POWERS:
            numbers = 2 ** (power - 1)
            if numbers > pool.numbers:
                continue
            for name, times in (("read", 1), ("write", 1), ("copy", 2), ("kernel", 2)):
                touched = times * 2 * numbers
                count = self.timer.copies(touched, pool.numbers // numbers)

                def call(i: int, name: str = name, numbers: int = numbers, count: int = count) -> Any:
                    at = i % count * numbers
                    to = target[at : at + numbers]
                    if name == "read":
                        return torch.sum(pool.all[at : at + numbers].view(torch.float32))
                    if name == "kernel":
                        return torch.neg(pool.all[at : at + numbers], out=to)
                    return to.fill_(1.0) if name == "write" else to.copy_(pool.all[at : at + numbers])

                spread = self.timer.graph(call, self.timer.calls(0, touched, count))
                yield Row("copy", name, "graph", n=numbers, bytes=touched, **spread._asdict())


def adam_rows(timer: Timer, tiny: bool) -> Iterator[Row]:
    """A step of Adam for a layer's parameters in fp32, as one fused kernel: parameter and two moments are read and
    written, the gradient is read."""
    torch, numbers = timer.torch, 1000 if tiny else 218_112_000
    parameter = torch.zeros(numbers, device=timer.device, requires_grad=True)
    parameter.grad = torch.ones_like(parameter)
    optimiser = torch.optim.Adam([parameter], fused=True)
    spread = timer.queued(lambda i: optimiser.step(), 4 if timer.cuda else 1)
    yield Row("element", "adam", "eager", "fp32", n=numbers, bytes=28 * numbers, **spread._asdict())
