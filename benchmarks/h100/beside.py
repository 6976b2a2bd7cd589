"""Predicted kernels and layers beside measured ones."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from benchmarks.h100 import predicted
from benchmarks.h100.predicted import Layer
from benchmarks.h100.rows import Row

HIDDEN, QKV, KEYS, FFN, HEADS, WORDS = 4096, 6144, 1024, 14_336, 32, 128_256
#: Rows of the tables below layers.
CONTEXT, BATCHES, PROMPTS, TRAINED = 2048, (1, 8, 64, 256), (512, 2048, 8192), (2048, 8192)
ATTENTION = ("MHA1", "Softmax", "MHA2")
#: Columns of prose.
WIDTH = 118
ATTENTION_BACK = ("MHA2_b1", "MHA2_b2", "Softmax_b", "MHA1_b1", "MHA1_b2")


class Pair(NamedTuple):
    """Kernels of the family's layer, and the microseconds of what a GPU runs for them."""

    kernels: tuple[str, ...]
    measured: float
    what: str


class Measured:
    """The rows by what was measured."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self.known = {row.key: row for row in self.rows}

    def us(self, part: str, name: str, mode: str, **sizes: int) -> float:
        """Microseconds of one row."""
        return self.known[Row(part, name, mode, **sizes).key].us  # type: ignore[arg-type]

    def product(self, m: int, n: int, k: int, mode: str = "forward") -> float:
        """Of a product of bf16, whatever it is called."""
        return next(
            row.us
            for row in self.rows
            if (row.part, row.mode, row.format, row.m, row.n, row.k) == ("product", mode, "", m, n, k)
        )

    def element(self, name: str, m: int, mode: str = "compiled") -> float:
        """Of an element-wise kernel of the smaller width."""
        widths = {"swiglu": FFN, "rotary": HIDDEN + KEYS}
        return self.us("element", name, mode, m=m, n=widths.get(name, HIDDEN))

    def layer(self, name: str, mode: str, batch: int, context: int, part: str = "layer") -> float:
        """Of a layer, or of a step."""
        return self.us(part, name, mode, batch=batch, context=context, heads=HEADS)

    def attention(self, name: str, batch: int, context: int) -> float:
        """Of cuDNN's attention."""
        return self.us("attention", name, "cudnn", batch=batch, context=context, heads=HEADS)


def inference(of: Measured, m: int, name: str, batch: int, context: int) -> list[Pair]:
    """The layer of m tokens: a decode step, or a prompt."""
    element, product = of.element, of.product
    return [
        Pair(("Norm1", "Norm2"), 2 * element("rms_norm", m), "two norms"),
        Pair(("Q", "K", "V"), product(m, QKV, HIDDEN), "one product"),
        Pair(("Rotary_Q", "Rotary_K"), element("rotary", m), "one kernel"),
        Pair(ATTENTION, of.attention(name, batch, context), "one kernel (cuDNN)"),
        Pair(("Proj",), product(m, HIDDEN, HIDDEN), "product"),
        Pair(("Add_Prev", "Add1", "Add2"), 2 * element("residual_add", m), "two sums"),
        Pair(("FFN0", "Gate"), product(m, 2 * FFN, HIDDEN), "one product"),
        Pair(("SiLU",), element("swiglu", m), "one kernel"),
        Pair(("FFN1",), product(m, HIDDEN, FFN), "product"),
    ]


def forward(of: Measured, m: int) -> list[Pair]:
    """The forward pass of training: products stand alone."""
    q, keys, gate = (of.product(m, rows, HIDDEN) for rows in (HIDDEN, KEYS, FFN))
    found = inference(of, m, "training", 1, m)
    alone = {
        "Q": (q + 2 * keys, "three products"),
        "FFN0": (2 * gate, "two products"),
    }
    return [
        one._replace(measured=alone[one.kernels[0]][0], what=alone[one.kernels[0]][1])
        if one.kernels[0] in alone
        else one
        for one in found
    ]


def backward(of: Measured, m: int) -> list[Pair]:
    """The backward pass of training."""

    def both(n: int, k: int) -> float:
        return of.product(m, n, k, "gradient") + of.product(m, n, k, "update")

    def back(name: str) -> float:
        return of.element(name, m, "backward")

    return [
        Pair(("FFN1_b", "FFN1_u"), both(HIDDEN, FFN), "two products"),
        Pair(("SiLU_b1", "SiLU_b2"), back("swiglu"), "PyTorch's kernels"),
        Pair(("FFN0_b", "FFN0_u", "Gate_b", "Gate_u"), 2 * both(FFN, HIDDEN), "four products"),
        Pair(("Norm1_b", "Norm2_b"), 2 * back("rms_norm"), "gradients of the inputs alone"),
        Pair(("Loss_b", "Add1_b", "Add_Prev_b"), 5 * of.element("residual_add", m, "eager"), "five sums"),
        Pair(("Proj_b", "Proj_u"), both(HIDDEN, HIDDEN), "two products"),
        Pair(ATTENTION_BACK, of.attention("backward", 1, m), "one kernel (cuDNN)"),
        Pair(("Rotary_Q_b", "Rotary_K_b"), back("rotary"), "PyTorch's kernels"),
        Pair(("Q_b", "Q_u"), both(HIDDEN, HIDDEN), "two products"),
        Pair(("K_b", "K_u", "V_b", "V_u"), 2 * both(KEYS, HIDDEN), "four products"),
    ]


def prose(*pieces: str, start: str = "") -> str:
    """Text in lines, behind ``start`` (the sign of a list's item)."""
    wrapped = textwrap.wrap(" ".join(pieces), WIDTH - len(start), break_long_words=False, break_on_hyphens=False)
    return start + f"\n{' ' * len(start)}".join(wrapped)


def us(value: float) -> str:
    """Microseconds in a table."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def compared(layer: Layer, pairs: list[Pair]) -> Iterator[str]:
    """Rows of a table of kernels, and their sum. All kernels of ``layer`` stand in one pair (those of its phase)."""
    for one in pairs:
        told = layer.of(*one.kernels)
        names = ", ".join(one.kernels)
        yield f"| {names} | {us(told)} | {us(one.measured)} | {one.measured / told:.2f} | {one.what} |"
    told, found = sum(layer.of(*one.kernels) for one in pairs), sum(one.measured for one in pairs)
    yield f"| **all, one by one** | {us(told)} | {us(found)} | {found / told:.2f} | |"


def total(name: str, told: float, found: float) -> str:
    """A row for something whole."""
    return f"| {name} | {us(told)} | {us(found)} | {found / told:.2f} | |"


KERNELS = """| kernels of the family | predicted, us | measured, us | measured / predicted | measured as |
|---|--:|--:|--:|---|"""


def prefill_table(of: Measured, tokens: int) -> list[str]:
    """A prompt's kernels, and its layer launched in each way."""
    layer = predicted.prefill(tokens)
    rows = [KERNELS, *compared(layer, inference(of, tokens, "prefill", 1, tokens))]
    for mode in ("compiled", "graph", "eager"):
        rows.append(total(f"the layer, {mode}", layer.us, of.layer("prefill", mode, 1, tokens)))
    return rows


def training_table(of: Measured, tokens: int) -> list[str]:
    """Forward, backward, and the layer launched in each way."""
    layer = predicted.training(tokens)
    ahead, back = forward(of, tokens), backward(of, tokens)
    told = sum(layer.of(*one.kernels) for one in ahead)
    rows = [KERNELS, *compared(layer, ahead)]
    for mode in ("compiled", "eager"):
        rows.append(total(f"forward of the layer, {mode}", told, of.layer("forward", mode, 1, tokens)))
    rows += compared(layer, back)
    for mode in ("compiled", "eager", "compiled sustained", "eager sustained"):
        found = of.layer("forward+backward", mode, 1, tokens)
        rows.append(total(f"forward and backward of the layer, {mode}", layer.us, found))
    return rows


def decode_table(of: Measured) -> list[str]:
    """Decode by batch: predicted and measured kernels, layers and steps."""
    layers = {batch: predicted.decode(batch, CONTEXT) for batch in BATCHES}
    pairs = {batch: inference(of, batch, "decode", batch, CONTEXT) for batch in BATCHES}
    rows = ["| kernels of the family | " + " | ".join(f"batch {one} | ratio" for one in BATCHES) + " |"]
    rows.append("|---|" + "--:|--:|" * len(BATCHES))

    def line(name: str, cells: Iterable[tuple[float, float]]) -> str:
        texts = (f"{us(told)} → {us(found)} | {found / told:.2f}" for told, found in cells)
        return f"| {name} | " + " | ".join(texts) + " |"

    for i, one in enumerate(pairs[BATCHES[0]]):
        cells = [(layers[b].of(*one.kernels), pairs[b][i].measured) for b in BATCHES]
        rows.append(line(", ".join(one.kernels), cells))
    sums = [(layers[b].us, sum(one.measured for one in pairs[b])) for b in BATCHES]
    rows.append(line("**all, one by one**", sums))
    for mode in ("compiled", "graph", "eager"):
        rows.append(line(f"the layer, {mode}", [(layers[b].us, of.layer("decode", mode, b, CONTEXT)) for b in BATCHES]))
    whole = {b: predicted.decode(b, CONTEXT, ends=True).us * predicted.LAYERS for b in BATCHES}
    for mode in ("compiled", "graph", "eager"):
        steps = [(whole[b], of.layer("decode", mode, b, CONTEXT, "step")) for b in BATCHES]
        rows.append(line(f"a step of 32 layers and the head, {mode}", steps))
    return rows


def memory_table(of: Measured) -> list[str]:
    """Bytes that a layer keeps for its backward pass."""
    shown = (("saved", "eager"), ("allocated", "eager"), ("allocated", "compiled"), ("peak", "eager"))
    names = ("predicted, MB", "saved, eager", "held, eager", "held, compiled", "peak, eager", "predicted / held, eager")
    rows = [f"| tokens | {' | '.join(names)} |", "|--:|" + "--:|" * len(names)]
    for tokens in TRAINED:
        sizes: dict[str, Any] = {"batch": 1, "context": tokens, "heads": HEADS}
        told = predicted.training(tokens).kept
        found = [of.known[Row("memory", name, mode, **sizes).key].bytes for name, mode in shown]
        cells = " | ".join(f"{one / 1e6:,.0f}" for one in (told, *found))
        rows.append(f"| {tokens:,} | {cells} | {told / found[1]:.2f} |")
    return rows
