"""The result page: what was measured, what the family predicts, and simple fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.h100 import predicted, tables
from benchmarks.h100.beside import (
    ATTENTION,
    CONTEXT,
    HIDDEN,
    Measured,
    decode_table,
    forward,
    memory_table,
    prefill_table,
    prose,
    training_table,
)
from benchmarks.h100.fits import of_roof, share, spread
from benchmarks.h100.rows import Row
from benchmarks.h100.told import told_table

#: FLOP from which a product is called large; tokens up to which DRAM bounds one.
LARGE, FEW = 10**11, 64
#: FLOP of the tensor cores in a cycle: 132 multiprocessors.
CYCLE = 132 * 4096
PROMPT, LONG = 2048, 8192
PRODUCTS = ("Q", "K", "V", "Proj", "FFN0", "Gate", "FFN1")


def page(rows: Sequence[Row], about: Mapping[str, str]) -> str:
    """The whole page."""
    of = Measured(rows)
    parts = [
        "# One H100: what was measured, and what `dataflow` predicts\n",
        *_measured(about),
        "\n## What the model of today gets wrong\n",
        *_wrong(of),
        "\n## The same with what it can be told today\n",
        *told_table(of),
        f"\n## A layer of Llama3-8B, prefill of {PROMPT:,} tokens\n",
        *prefill_table(of, PROMPT),
        f"\n## Prefill of {LONG:,} tokens\n",
        *prefill_table(of, LONG),
        f"\n## Decode at a context of {CONTEXT:,} tokens, predicted → measured, us\n",
        *decode_table(of),
        f"\n## Training with {PROMPT:,} tokens\n",
        *training_table(of, PROMPT),
        f"\n## Training with {LONG:,} tokens\n",
        *training_table(of, LONG),
        "\n## What a layer keeps for its backward pass\n",
        *memory_table(of),
        "",
        prose(
            "Saved: unique storages that autograd's hooks see, without parameters and the input. Held: what the",
            "allocator holds after the forward pass, without the output. Peak: the most that it holds in both passes,",
            "with gradients of parameters. Predicted: outputs that a backward kernel reads.",
        ),
        *_reached(rows),
    ]
    return "\n".join(parts) + "\n"


def _reached(rows: Sequence[Row]) -> list[str]:
    """What kernels reach by themselves."""
    return [
        "\n## Products\n",
        prose(
            "The roof is the least time that the data sheet allows: the longer of FLOP at its peak and bytes at 3,350",
            "bytes/ns. A share of it is that time over the measured one.",
        ),
        "",
        *tables.by_flop(rows),
        "",
        *tables.by_tokens(rows),
        "",
        *tables.squares(rows),
        "\n## Simple fits\n",
        prose(
            "us = fixed + max(FLOP / (share · peak), bytes / (share · 3,350 bytes/ns)). The numbers have the least sum",
            "of absolute logarithms of fitted over measured. Errors are of all rows, which the fit has seen.",
        ),
        "",
        *tables.fits(rows),
        "\n## Attention, TFLOP/s\n",
        "Heads of 128 numbers, 8 key heads, causal, one sample; masked scores aren't counted.\n",
        *tables.attention(rows),
        "\nDecode, shares of DRAM's rate:\n",
        *tables.decoding(rows),
        "\n## Element-wise kernels, us by tokens\n",
        prose(
            "Eager: PyTorch's own kernels, one or more. Compiled: by its compiler, for any number of tokens. Cached:",
            "compiled, and the same operands each time. Bytes are those that must move.",
        ),
        "",
        *tables.elements(rows),
        "\n## DRAM, shares of 3,350 bytes/ns\n",
        *tables.copies(rows),
        "\n## Fixed costs\n",
        *tables.launches(rows),
        "\n## How well it repeats\n",
        *tables.repeats(rows),
    ]


def _measured(about: Mapping[str, str]) -> list[str]:
    """How, where, with what clocks."""
    said = [
        prose(
            "`python -m benchmarks.measured_h100` makes this page of [the rows](measured-h100.csv). On a machine with",
            "an H100 `--measure FOLDER` makes rows anew; `--join` puts two occasions together.",
        ),
        "",
        prose(
            f"Card: {about['card']}, {about['multiprocessors']} multiprocessors, up to {about['most_mhz']} MHz, memory",
            f"at {about['memory_mhz']} MHz, limit {float(about['power_limit_w']):.0f} W; clocks and limit as they were",
            f"found. PyTorch {about['torch']}, CUDA {about['cuda']}, cuDNN {about['cudnn']}, driver {about['driver']},",
            f"Python {about['python']}.",
        ),
        "",
        *(prose(one, start="- ") for one in HOW),
        "\nSM clock in MHz (10th percentile / median) and watts (median, most) while each part ran:\n",
        "| part | second occasion | first |",
        "|---|---|---|",
    ]
    for key, told in about.items():
        if key.startswith("part "):
            both = (_short(one) for one in (told, about.get(f"other {key}", "")))
            said.append(f"| {key[5:]} | {' | '.join(both)} |")
    return [
        *said,
        "",
        prose(
            f"Predicted: `{predicted.MODEL}` on one chip of `{predicted.MACHINE}`, the data sheet's peaks and rates,",
            "the default utilisation of 0.9. A kernel takes the longer of compute and DRAM. Each is a partition, and",
            "launches are free.",
        ),
    ]


HOW = (
    "A row is the median of seven groups, each between two CUDA events, after a warm-up. A group is a CUDA graph of "
    "calls that take 0.3 ms or more together. It begins behind a kernel that waits: no launch by the host counts.",
    "Operands are random numbers. Calls take turns over 150 MB of them, three times the L2 cache (at most 512 sets, so "
    "that operands below 0.3 MB may stay in the cache).",
    "Backward kernels and training layers aren't graphs: all of a group is launched while the device waits. *Eager* "
    "layers of inference are timed by the host's clock.",
    "Compiled layers: what stands before and after attention is compiled; inference then runs as a CUDA graph.",
    "Two occasions, on two cards of this kind. Tables show the second one.",
)


def _short(told: str) -> str:
    """Clocks and watts without words."""
    for word in (" (10th percentile / median)", " (median)", " (most)", "SM "):
        told = told.replace(word, "")
    return told


def _wrong(of: Measured) -> list[str]:
    """The findings, with their figures."""
    found = (_attention(of), _whole(of), _compute(of.rows), _dram(of.rows), _fixed(of), _elements(of), _kept(of))
    return [prose(*pieces, start=f"{i}. ") for i, pieces in enumerate(found, 1)]


def _attention(of: Measured) -> list[str]:
    short, long = (predicted.prefill(tokens).of(*ATTENTION) for tokens in (PROMPT, LONG))
    found = [of.attention("prefill", 1, tokens) for tokens in (PROMPT, LONG)]
    return [
        "**Attention isn't three kernels.** Its scores never go through DRAM.",
        f"At {PROMPT:,} tokens one kernel takes {found[0]:.0f} us, predicted are {short:.0f}.",
        f"At {LONG:,} it is {found[1]:.0f} us for {long:,.0f}. Masked scores are counted besides.",
    ]


def _whole(of: Measured) -> list[str]:
    short, long = predicted.prefill(PROMPT), predicted.prefill(LONG)
    measured, alone = of.layer("prefill", "compiled", 1, PROMPT), of.attention("prefill", 1, PROMPT)
    told, found = short.us - short.of(*ATTENTION), measured - alone
    return [
        f"**The whole is right by accident.** Prefill of {PROMPT:,} tokens: predicted {short.us:,.0f} us, measured",
        f"{measured:,.0f}. All but attention is predicted at {told:,.0f} us and takes {found:,.0f}, a factor of",
        f"{found / told:.2f}. Nor is the prediction a limit: {LONG:,} tokens are predicted at {long.us:,.0f} us and",
        f"take {of.layer('prefill', 'compiled', 1, LONG):,.0f}.",
    ]


def _compute(rows: Sequence[Row]) -> list[str]:
    large = [share(r) for r in rows if tables.is_product(r, "", "forward") and r.flop >= LARGE]
    long_run = [r for r in rows if tables.is_product(r, "", "sustained")]
    clocked = [100 * r.tflops * 1e6 / (CYCLE * r.mhz) for r in long_run]
    low, high = (100 * end(map(share, long_run)) for end in (min, max))
    return [
        f"**No product reaches 0.9 of the peak.** Those of 10^11 FLOP and more reach {100 * spread(large)[1]:.0f} %",
        f"(median of {len(large)}), {100 * max(large):.0f} % at most. After two seconds of the same square it is",
        f"{low:.0f} to {high:.0f} %: at the limit of 700 W the clock falls from 1,980 to",
        f"{min(r.mhz for r in long_run):,} MHz. The data sheet's peak is that of 1,830 MHz; of what the sampled",
        f"clock allows they reach {min(clocked):.0f} to {max(clocked):.0f} %. So power sets the rate of long runs,",
        "which the model hasn't.",
    ]


def _dram(rows: Sequence[Row]) -> list[str]:
    few = [r for r in rows if tables.is_product(r, "", "forward") and r.m <= FEW and r.name != "square"]
    tenth, middle, _ = spread(map(of_roof, few))
    read, copied, by_cuda = (
        next(of_roof(r) for r in rows if (r.part, r.name, r.n) == ("copy", name, 2**30))
        for name in ("read", "kernel", "copy")
    )
    return [
        f"**Products of few tokens don't reach DRAM's rate.** Up to {FEW} tokens they reach {100 * middle:.0f} % of it",
        f"(median), {100 * tenth:.0f} % at the 10th percentile: small shares of a layer on 4 or 8 chips are worst.",
        f"Reading alone reaches {100 * read:.0f} %, a kernel that copies {100 * copied:.0f} %, CUDA's own copy of",
        f"2 GB {100 * by_cuda:.0f} %.",
    ]


def _fixed(of: Measured) -> list[str]:
    alone, step = predicted.decode(1, CONTEXT), predicted.decode(1, CONTEXT, ends=True).us * predicted.LAYERS
    compiled, first, later = (
        of.layer("decode", mode, batch, CONTEXT, "step")
        for mode, batch in (("compiled", 1), ("eager", 1), ("eager", 64))
    )
    more, products = of.layer("decode", "compiled", 1, CONTEXT) - alone.us, _products(of) - alone.of(*PRODUCTS)
    return [
        f"**Kernels aren't free.** A norm of 8 tokens takes {of.element('rms_norm', 8):.1f} us, predicted are",
        f"{predicted.decode(8, CONTEXT).of('Norm1'):.2f}. A decode step at batch 1 is predicted at {step:,.0f} us and",
        f"takes {compiled:,.0f} as a CUDA graph. Of the {more:.0f} us more per layer, products have {products:.0f}.",
        f"Launched by the host it takes {first:,.0f} us, and at batch 64 {later:,.0f}.",
    ]


def _elements(of: Measured) -> list[str]:
    told = predicted.prefill(PROMPT).of("Rotary_Q", "Rotary_K")
    ahead = sum(one.measured for one in forward(of, PROMPT))
    return [
        "**Element-wise kernels don't reach DRAM's rate**, and what they cost depends on who wrote them. The rotation",
        f"of {PROMPT:,} tokens takes {of.element('rotary', PROMPT, 'eager'):.0f} us as PyTorch runs it and",
        f"{of.element('rotary', PROMPT):.0f} compiled alone; predicted are {told:.0f}. Inside a compiled layer they",
        f"cost less than alone: the forward kernels of training take {ahead:,.0f} us one by one, the layer",
        f"{of.layer('forward', 'compiled', 1, PROMPT):,.0f}.",
    ]


def _kept(of: Measured) -> list[str]:
    kept = predicted.training(LONG).kept
    held = of.known[Row("memory", "allocated", "eager", batch=1, context=LONG, heads=32).key].bytes
    return [
        f"**What is kept for the backward pass is too much**: {kept / 1e6:,.0f} MB for a layer of {LONG:,} tokens,",
        f"where PyTorch holds {held / 1e6:,.0f}. The scores are the difference.",
    ]


def _products(of: Measured) -> float:
    """Microseconds of a decode layer's products at batch 1."""
    shapes = ((6144, HIDDEN), (HIDDEN, HIDDEN), (28_672, HIDDEN), (HIDDEN, 14_336))
    return sum(of.product(1, n, k) for n, k in shapes)
