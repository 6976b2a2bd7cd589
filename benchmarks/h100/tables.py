"""Tables of what kernels reach: by FLOP, by bytes, by tokens, and what they cost at least."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.h100.fits import DRAM, classes, fitted, in_percent, of_roof, share, spread
from benchmarks.h100.rows import Row

Choice = Callable[[Row], bool]
#: What is fitted, and which rows that are.
SETS: dict[str, Choice] = {
    "products, bf16": lambda row: is_product(row, "", "forward"),
    "products of the backward pass, bf16": lambda row: is_product(row, "", "gradient", "update"),
    "products, fp8": lambda row: is_product(row, "fp8", "forward"),
    "products of experts, bf16": lambda row: is_product(row, "", "grouped"),
    "prefill attention, cuDNN": lambda row: is_attention(row, "cudnn", "prefill"),
    "prefill attention, flash": lambda row: is_attention(row, "flash", "prefill"),
    "attention's backward pass, cuDNN": lambda row: is_attention(row, "cudnn", "backward"),
    "decode attention, cuDNN": lambda row: is_attention(row, "cudnn", "decode"),
    "decode attention, flash": lambda row: is_attention(row, "flash", "decode"),
    **{
        f"{name}, compiled": lambda row, name=name: (row.name, row.mode) == (name, "compiled")  # type: ignore[misc]
        for name in ("rms_norm", "residual_add", "add_norm", "swiglu", "rotary")
    },
    "softmax over the vocabulary": lambda row: (row.name, row.mode) == ("softmax", "eager"),
}
#: Tokens of the tables by tokens, and bytes of copies as powers of two.
TOKENS, POWERS = (1, 64, 256, 512, 2048, 8192), range(14, 34, 2)


def is_product(row: Row, named: str, *modes: str) -> bool:
    """Whether a row is a product of this format in one of these modes."""
    return row.part == "product" and row.format == named and row.mode in modes


def is_attention(row: Row, mode: str, name: str) -> bool:
    """Whether a row is attention of this library."""
    return (row.part, row.mode, row.name) == ("attention", mode, name)


def by_flop(rows: Sequence[Row]) -> list[str]:
    """Products by FLOP: shares of the peak, and of what peak and DRAM allow together."""
    said = ["| products | FLOP | rows | of the peak, %: 10th | median | 90th | of the roof, %: 10th | median | 90th |"]
    said.append("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in list(SETS)[:3]:
        for power, some in classes([row for row in rows if SETS[name](row)], lambda row: row.flop):
            cells = f"{in_percent(map(share, some))} | {in_percent(map(of_roof, some))}"
            said.append(f"| {name} | 10^{power} to 10^{power + 1} | {len(some)} | {cells} |")
    return said


def by_tokens(rows: Sequence[Row]) -> list[str]:
    """Products by tokens."""
    chosen = [row for row in rows if SETS["products, bf16"](row) and row.name != "square"]
    said = ["| tokens | rows | of the peak, %: median | of the roof, %: 10th | median | 90th |", "|--:|" + "--:|" * 5]
    for m in sorted({row.m for row in chosen}):
        some = [row for row in chosen if row.m == m]
        middle = 100 * spread(map(share, some))[1]
        said.append(f"| {m:,} | {len(some)} | {middle:.1f} | {in_percent(map(of_roof, some))} |")
    return said


def squares(rows: Sequence[Row]) -> list[str]:
    """Squares, and those that follow two seconds of themselves."""
    said = ["| side | bf16, TFLOP/s | of the peak, % | MHz | fp8, TFLOP/s | of the peak, % | after 2 s: bf16 | MHz |"]
    said.append("|--:|--:|--:|--:|--:|--:|--:|--:|")
    found = {(row.m, row.format, row.mode): row for row in rows if row.name == "square"}
    for side in sorted({side for side, _, _ in found}):
        bf16, fp8, long = (found.get((side, *one)) for one in (("", "forward"), ("fp8", "forward"), ("", "sustained")))
        assert bf16 is not None and fp8 is not None
        cells = (
            f"{bf16.tflops:,.0f} | {100 * share(bf16):.0f} | {bf16.mhz:,} | {fp8.tflops:,.0f} | {100 * share(fp8):.0f}"
        )
        more = "| |" if long is None else f"{long.tflops:,.0f} | {long.mhz:,} |"
        said.append(f"| {side:,} | {cells} | {more}")
    return said


def fits(rows: Sequence[Row]) -> list[str]:
    """us = fixed + max(FLOP / (share · peak), bytes / (share · rate)), for each set."""
    said = ["| what | rows | fixed, us | of the peak | of DRAM's rate | error, %: median | 90th |"]
    said.append("|---|--:|--:|--:|--:|--:|--:|")
    for name, chosen in SETS.items():
        some = [row for row in rows if chosen(row)]
        fit = fitted(some)
        product, bound = name.startswith("products"), "prefill" in name or "backward" in name
        cells = f"{fit.compute:.2f}" if product or bound else "", f"{fit.memory:.2f}" if product or not bound else ""
        errors = f"{100 * fit.median:.1f} | {100 * fit.ninth:.1f}"
        said.append(f"| {name} | {len(some)} | {fit.fixed:.1f} | {' | '.join(cells)} | {errors} |")
    return said


def attention(rows: Sequence[Row]) -> list[str]:
    """Prefill and training by tokens, of 32 and 64 heads, in TFLOP/s of the half that isn't masked."""
    modes = [(mode, name) for name in ("prefill", "backward") for mode in ("cudnn", "flash")]
    heads = (32, 64)
    titles = [f"{name}, {mode}, {h} heads" for name, mode in ((n, m) for m, n in modes) for h in heads]
    said = [f"| tokens | {' | '.join(titles)} |", "|--:|" + "--:|" * len(titles)]
    found = {(r.name, r.mode, r.heads, r.context): r for r in rows if r.part == "attention" and r.batch == 1}
    for tokens in sorted({context for name, _, _, context in found if name == "prefill"}):
        asked = [found.get((name, mode, h, tokens)) for mode, name in modes for h in heads]
        said.append(f"| {tokens:,} | " + " | ".join("" if r is None else f"{r.tflops:,.0f}" for r in asked) + " |")
    return said


def decoding(rows: Sequence[Row]) -> list[str]:
    """Decode attention by bytes of the cache: shares of DRAM's rate."""
    said = ["| bytes | rows | cuDNN, %: 10th | median | 90th | flash, %: 10th | median | 90th |", "|---|" + "--:|" * 7]
    both = [[r for r in rows if is_attention(r, mode, "decode")] for mode in ("cudnn", "flash")]
    for (power, first), (_, second) in zip(*(classes(one, lambda r: r.bytes) for one in both), strict=True):
        cells = f"{in_percent(map(of_roof, first))} | {in_percent(map(of_roof, second))}"
        said.append(f"| 10^{power} to 10^{power + 1} | {len(first)} | {cells} |")
    return said


def elements(rows: Sequence[Row]) -> list[str]:
    """Element-wise kernels by tokens: microseconds, and the share of DRAM's rate at the most tokens."""
    said = ["| kernel | " + " | ".join(f"{one:,}" for one in TOKENS) + " | of DRAM's rate at the most, % |"]
    said.append("|---|" + "--:|" * (len(TOKENS) + 1))
    known = {(r.name, r.mode, r.n, r.m): r for r in rows if r.part == "element" and r.mode != "backward"}
    for name, mode, n in dict.fromkeys(key[:3] for key in known):
        if n in (4096, 14_336, 5120, 128_256):
            some = [known.get((name, mode, n, m)) for m in TOKENS]
            last = [r for r in some if r is not None][-1]
            cells = " | ".join("" if r is None else f"{r.us:,.1f}" for r in some)
            said.append(f"| {name}, {mode} | {cells} | {100 * last.rate * 1e3 / DRAM:.0f} |")
    return said


def copies(rows: Sequence[Row]) -> list[str]:
    """Shares of DRAM's rate by bytes of an operand."""
    names = {"read": "read (a sum)", "write": "written", "copy": "CUDA's copy", "kernel": "a kernel's copy"}
    said = [
        "| bytes of an operand | " + " | ".join(f"{one}, %" for one in names.values()) + " |",
        "|--:|--:|--:|--:|--:|",
    ]
    known = {(r.name, 2 * r.n): r for r in rows if r.part == "copy"}
    for power in POWERS:
        cells = (f"{100 * known[name, 2**power].rate * 1e3 / DRAM:.1f}" for name in names)
        said.append(f"| {2**power:,} | {' | '.join(cells)} |")
    return said


def launches(rows: Sequence[Row]) -> list[str]:
    """Microseconds of kernels that do next to nothing."""
    modes = {
        "graph": "in a CUDA graph",
        "queued": "launched before the one ahead ends",
        "eager": "as the host launches them",
        "awaited": "each awaited by the host",
    }
    said = ["| us per kernel | " + " | ".join(modes.values()) + " |", "|---|--:|--:|--:|--:|"]
    known = {(r.name, r.mode): r.us for r in rows if r.part == "fixed"}
    names = {"empty": "an empty kernel", "add_one": "a sum of one number", "product_64": "a product of 64 × 64 × 64"}
    for name, words in names.items():
        said.append(f"| {words} | " + " | ".join(f"{known[name, mode]:.1f}" for mode in modes) + " |")
    return said


def repeats(rows: Sequence[Row]) -> list[str]:
    """How far the other occasion is from the one that is shown."""
    said = [
        "| part | rows | difference, %: median | 90th | most | spread of a row's groups, %: median |",
        "|---|" + "--:|" * 5,
    ]
    timed = [r for r in rows if r.us and r.again]
    for name in dict.fromkeys(map(_kind, timed)):
        some = [r for r in timed if _kind(r) == name]
        _, middle, ninth = spread(r.error for r in some)
        most, inside = max(r.error for r in some), spread(r.spread for r in some)[1]
        cells = f"{100 * middle:.1f} | {100 * ninth:.1f} | {100 * most:.1f} | {inside:.1f}"
        said.append(f"| {name} | {len(some)} | {cells} |")
    return said


def _kind(row: Row) -> str:
    """What rows are told together: their part, and apart what waits for the host."""
    host = row.part == "fixed" or (row.part in ("layer", "step") and row.mode == "eager")
    return f"{row.part}, launched by the host" if host and row.mode != "graph" else row.part
