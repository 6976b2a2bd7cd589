"""What the model of today comes to when its machine is told what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.h100 import predicted
from benchmarks.h100.beside import ATTENTION, ATTENTION_BACK, BATCHES, CONTEXT, PROMPTS, TRAINED, Measured, prose, us
from benchmarks.h100.fits import DRAM, PEAKS, classes, fitted, share, spread
from benchmarks.h100.predicted import Fields, Layer
from benchmarks.h100.rows import Row
from benchmarks.h100.tables import SETS

#: Element-wise kernels whose fixed cost is that of a launch.
LAUNCHED = ("rms_norm", "residual_add", "swiglu", "rotary")


def fields(rows: Sequence[Row]) -> Fields:
    """The median share of the peak of products that it bounds, by FLOP (never falling, as the family asks); the share
    of DRAM's rate by the products' fit; the median fixed cost of element-wise kernels."""
    products = [row for row in rows if SETS["products, bf16"](row)]
    bound = [row for row in products if row.flop / PEAKS[""] > row.bytes / DRAM]
    best, pairs = 0.0, list[tuple[float, float]]()
    for power, some in classes(bound, lambda row: row.flop):
        middle = round(spread(map(share, some))[1], 2)
        if middle > best:
            best = middle
            pairs.append((10.0**power if pairs else 0.0, best))
    fixed = [fitted([row for row in rows if SETS[f"{name}, compiled"](row)]).fixed for name in LAUNCHED]
    return Fields(tuple(pairs), fitted(products).memory, 1000 * round(statistics.median(fixed), 1))


def told_table(of: Measured) -> list[str]:
    """Layers without attention: predicted by the data sheet, with what can be told, and measured."""
    known = fields(of.rows)
    pairs = ", ".join(f"[{flop:.0e}, {part}]".replace("e+", "e") for flop, part in known.efficiency)
    rows = [
        prose(
            f"`chip.efficiency` [{pairs}], `memory.efficiency` {known.memory:.2f}, `chip.launch_ns`",
            f"{known.launch_ns:,.0f}, `task.utilisation` 1: medians and fits of single kernels, no layer is fitted.",
            "Attention is left out, of the measured layer (compiled) by what it takes alone.",
        ),
        "",
        "| layer | data sheet, us | told, us | measured, us | measured / data sheet | measured / told |",
        "|---|--:|--:|--:|--:|--:|",
    ]

    def line(
        name: str, layer: Callable[..., Layer], size: tuple[int, ...], left_out: tuple[str, ...], found: float
    ) -> str:
        both = [one.us - one.of(*left_out) for one in (layer(*size), layer(*size, told=known))]
        ratios = " | ".join(f"{found / one:.2f}" for one in both)
        return f"| {name} | {us(both[0])} | {us(both[1])} | {us(found)} | {ratios} |"

    for batch in BATCHES:
        found = of.layer("decode", "compiled", batch, CONTEXT) - of.attention("decode", batch, CONTEXT)
        rows.append(line(f"decode, batch {batch}", predicted.decode, (batch, CONTEXT), ATTENTION, found))
    for tokens in PROMPTS:
        found = of.layer("prefill", "compiled", 1, tokens) - of.attention("prefill", 1, tokens)
        rows.append(line(f"prefill, {tokens:,} tokens", predicted.prefill, (tokens,), ATTENTION, found))
    for tokens in TRAINED:
        alone = of.attention("training", 1, tokens) + of.attention("backward", 1, tokens)
        found = of.layer("forward+backward", "compiled sustained", 1, tokens) - alone
        name = f"training, {tokens:,} tokens, sustained"
        rows.append(line(name, predicted.training, (tokens,), (*ATTENTION, *ATTENTION_BACK), found))
    return rows
