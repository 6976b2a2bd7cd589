"""Matrix products of Llama3's layers and their n-th parts, forward and backward, and squares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.h100.rows import Row
from benchmarks.h100.timer import Pool, Timer

#: hidden, numbers of keys (as many of values), rows of the FFN, words.
SIZES = {"8b": (4096, 1024, 14_336, 128_256), "70b": (8192, 1024, 28_672, 128_256)}
PARTS = (1, 2, 4, 8)
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
TOKENS_FP8 = (16, 64, 128, 256, 512, 1024, 2048, 8192)
TOKENS_BACK = (2048, 8192)
SQUARES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384)
#: Experts of a chip: those of Mixtral 8x7B, and an eighth of DeepSeek-V3's; tokens of each.
EXPERTS = (("Mixtral up", 8, 14_336, 4096), ("Mixtral down", 8, 4096, 14_336), ("DeepSeek up", 32, 2048, 7168))
TOKENS_EXPERT = (1, 4, 16, 64, 256, 1024)
#: Squares measured again after so many seconds of nothing else, when the card has reached its limit of power.
SUSTAINED, BUSY_S = (4096, 8192, 16_384), 2.0
#: Numbers of the pools: operands in bf16 and fp8, outputs.
POOL, POOL_OUT = 2_200_000_000, 2_200_000_000


class Shape(NamedTuple):
    """A product of a layer: its name, and numbers that a token's output and input have."""

    name: str
    n: int
    k: int


def shapes(model: str, parts: int) -> list[Shape]:
    """The products of a model on ``parts`` chips: the first of a pair split by rows, the second by what it sums up."""
    hidden, keys, ffn, words = SIZES[model]
    by_rows = {"Q": hidden, "KV": keys, "QKV": hidden + 2 * keys, "Gate": ffn, "GateUp": 2 * ffn, "Head": words}
    by_sums = {"Proj": hidden, "Down": ffn}
    ends = f"{model}" if parts == 1 else f"{model}/{parts}"
    return [
        *(Shape(f"{name} {ends}", rows // parts, hidden) for name, rows in by_rows.items()),
        *(Shape(f"{name} {ends}", hidden, inner // parts) for name, inner in by_sums.items()),
    ]


def all_shapes(tiny: bool) -> list[Shape]:
    """Each shape once, under the first of its names."""
    if tiny:
        return [Shape("Q tiny", 64, 32), Shape("Head tiny", 96, 32)]
    found: dict[tuple[int, int], Shape] = {}
    for model in SIZES:
        for parts in PARTS:
            for one in shapes(model, parts):
                found.setdefault((one.n, one.k), one)
    return list(found.values())


class Products:
    """Operands and outputs of all products."""

    def __init__(self, timer: Timer, tiny: bool) -> None:
        torch = self.torch = timer.torch
        self.timer, self.tiny = timer, tiny
        self.pool = Pool(timer, 10**6 if tiny else POOL, torch.bfloat16)
        self.out = torch.empty(10**6 if tiny else POOL_OUT, dtype=torch.bfloat16, device=timer.device)

    def _output(self, i: int, rows: int, columns: int) -> Any:
        numbers = -(-rows * columns // 256) * 256
        start = i % (self.out.numel() // numbers) * numbers
        return self.out[start : start + rows * columns].view(rows, columns)

    def row(self, name: str, m: int, n: int, k: int, mode: str = "forward", busy_s: float = 0.0) -> Row:
        """m tokens by a weight of n × k: the output, or the gradient of what was read or of the weight."""
        touched, flop = 2 * (m * k + n * k + m * n), 2 * m * n * k
        mm, piece, out = self.torch.mm, self.pool.piece, self._output

        def call(i: int) -> None:
            if mode == "forward":
                mm(piece(i, m, k), piece(i + 1, n, k).t(), out=out(i, m, n))
            elif mode == "gradient":
                mm(piece(i, m, n), piece(i + 1, n, k), out=out(i, m, k))
            else:
                mm(piece(i, m, n).t(), piece(i + 1, m, k), out=out(i, n, k))

        spread = self.timer.graph(call, self.timer.calls(flop, touched, self.timer.copies(touched)), busy_s)
        mode = "sustained" if busy_s else mode
        return Row("product", name, mode, "", m, n, k, flop=flop, bytes=touched, **spread._asdict())

    def forward(self) -> Iterator[Row]:
        """All shapes by all numbers of tokens, then squares."""
        for one in all_shapes(self.tiny):
            for m in (1, 8) if self.tiny else TOKENS:
                yield self.row(one.name, m, one.n, one.k)
        for side in (64,) if self.tiny else SQUARES:
            yield self.row("square", side, side, side)
        for side in () if self.tiny else SUSTAINED:
            yield self.row("square", side, side, side, busy_s=BUSY_S)

    def backward(self) -> Iterator[Row]:
        """The two products of the backward pass, but for heads."""
        for one in all_shapes(self.tiny):
            if not one.name.startswith("Head"):
                for m in (8,) if self.tiny else TOKENS_BACK:
                    yield self.row(one.name, m, one.n, one.k, "gradient")
                    yield self.row(one.name, m, one.n, one.k, "update")


def grouped_rows(timer: Timer, tiny: bool) -> Iterator[Row]:
    """A product per expert in one kernel, ``batch`` experts with equal shares of m tokens."""
    torch = timer.torch
    pool = Pool(timer, 10**6 if tiny else POOL, torch.bfloat16)
    grouped = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    for name, experts, n, k in () if tiny else EXPERTS:
        for each in TOKENS_EXPERT:
            m = experts * each
            ends = torch.arange(each, m + 1, each, dtype=torch.int32, device=timer.device)
            touched, flop = 2 * (m * k + experts * n * k + m * n), 2 * m * n * k

            def call(i: int, m: int = m, n: int = n, k: int = k, experts: int = experts, ends: Any = ends) -> Any:
                weights = pool.piece(i + 1, experts, n, k).transpose(1, 2)
                return grouped(pool.piece(i, m, k), weights, offs=ends)

            spread = timer.graph(call, timer.calls(flop, touched, timer.copies(touched)))
            sizes: dict[str, Any] = {"m": m, "n": n, "k": k, "batch": experts, "flop": flop, "bytes": touched}
            yield Row("product", name, "grouped", **sizes, **spread._asdict())


def fp8_rows(timer: Timer, tiny: bool) -> Iterator[Row]:
    """Products of fp8 (e4m3), one scale per operand, outputs in bf16: the whole 8B and the 70B on four chips."""
    torch = timer.torch
    pool = Pool(timer, 10**6 if tiny else POOL, torch.float8_e4m3fn)
    scale = torch.ones((), device=timer.device)
    listed = [Shape("Q tiny", 64, 32)] if tiny else [*shapes("8b", 1), *shapes("70b", 4)]
    pairs = [(one.name, m, one.n, one.k) for one in listed for m in ((16,) if tiny else TOKENS_FP8)]
    pairs += [] if tiny else [("square", side, side, side) for side in SQUARES]
    for name, m, n, k in pairs:
        touched, flop = m * k + n * k + 2 * m * n, 2 * m * n * k

        def call(i: int, m: int = m, n: int = n, k: int = k) -> Any:
            x, w = pool.piece(i, m, k), pool.piece(i + 1, n, k).t()
            return torch._scaled_mm(x, w, scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True)

        spread = timer.graph(call, timer.calls(flop, touched, timer.copies(touched)))
        yield Row("product", name, "forward", "fp8", m, n, k, flop=flop, bytes=touched, **spread._asdict())
