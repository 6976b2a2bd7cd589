"""Machines calibrated from single kernels, judged by whole layers that weren't fitted: one H100 and one H200.

    python -m benchmarks.calibrated_machines [--export FOLDER] [--out FILE]

``--export`` writes the kernels of both cards as ``chipmap calibrate`` reads them. Layers of Llama3-8B (compiled, those
of training sustained) are predicted by the data sheet, by the card's own kernels, and for the H200 by the H100's
kernels with the H200's DRAM.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.h100.beside import Measured, prose
from benchmarks.h100.engine import ASKED, Asked, us
from benchmarks.h100.rows import Row, read_rows
from chipmap.instances.dataflow.machine_fit import Calibration, calibrated
from chipmap.instances.dataflow.machine_rows import KernelRow, Rows
from chipmap.instances.dataflow.machines import machine
from chipmap.instances.dataflow.system import System

RESULTS = Path(__file__).resolve().parent / "results"
CARDS = {"h100-sxm": RESULTS / "measured-h100.csv", "h200": RESULTS / "measured-h200.csv"}
PAGE = RESULTS / "calibrated-machines.md"
#: Element-wise kernels that a compiler made, as those of the layers.
ELEMENTS = ("rms_norm", "residual_add", "add_norm", "swiglu", "rotary")
FORMATS = ("bf16",)


def product(row: Row) -> tuple[int, int, int, int]:
    """Products, rows of weights, columns and terms of a row: a gradient exchanges outputs and inputs, an update sums
    over tokens, experts share the tokens."""
    if row.mode == "update":
        return 1, row.n, row.k, row.m
    if row.mode == "gradient":
        return 1, row.k, row.m, row.n
    experts = row.batch or 1
    return experts, row.n, row.m // experts, row.k


def kernels(rows: Sequence[Row]) -> list[KernelRow]:
    """The rows that are fitted or judged: products, cuDNN's attention, compiled element-wise kernels; no sustained."""
    found = []
    for row in rows:
        named, ns = row.format or "bf16", 1000 * row.us
        fixed = {"format": named, "flop": row.flop, "bytes": row.bytes, "ns": ns, "fetch": 0}
        if row.part == "product" and row.mode != "sustained":
            outer, m, n, k = product(row)
            found.append(KernelRow(kind="product", outer=outer, m=m, n=n, k=k, **fixed))  # type: ignore[arg-type]
            continue
        kind = ""
        if row.part == "attention" and row.mode == "cudnn":
            kind = "cached" if row.name == "decode" else "attention"
        elif row.part == "element" and row.mode == "compiled" and row.name in ELEMENTS:
            kind, fixed["flop"] = "element", 0
        if kind:
            fixed["fetch"] = row.bytes if kind == "cached" else 0
            found.append(KernelRow(kind=kind, outer=1, m=1, n=1, k=1, **fixed))  # type: ignore[arg-type]
    return found


def text_of(rows: Sequence[KernelRow]) -> str:
    """Kernels as ``chipmap calibrate`` reads them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("kernel", "format", "outer", "m", "n", "k", "flop", "bytes", "ns"))
    for row in rows:
        sizes = (row.outer, row.m, row.n, row.k) if row.kind == "product" else ("", "", "", "")
        writer.writerow((row.kind, row.format, *sizes, f"{row.flop:.0f}", f"{row.bytes:.0f}", f"{row.ns:.7g}"))
    return out.getvalue()


def fitted(card: str) -> Calibration:
    """A card's own calibration, on its products and attention in bf16."""
    rows = Rows(kernels(read_rows(CARDS[card])[0]), [], [])
    return calibrated(machine(card, (1,)), rows, formats=FORMATS)


def took(of: Measured, one: Asked) -> float:
    """Microseconds of a measured layer or step."""
    mode = "compiled sustained" if one.name == "forward+backward" else "compiled"
    return of.layer(one.name, mode, one.batch, one.context, "step" if one.step else "layer")


def with_memory(one: System, other: System) -> System:
    """A machine with the DRAM of another, at its own shares."""
    memory = one.memory.replace(bytes_per_ns=other.memory.bytes_per_ns, capacity_bytes=other.memory.capacity_bytes)
    return one.replace(memory=memory)


def compared(card: str, systems: dict[str, System]) -> Iterator[str]:
    """A table of layers by each machine, and the errors below it."""
    of = Measured(read_rows(CARDS[card])[0])
    yield "| layer | measured, us | " + " | ".join(f"{name}, us | ratio" for name in systems) + " |"
    yield "|---|--:|" + "--:|--:|" * len(systems)
    errors: dict[str, list[float]] = {name: [] for name in systems}
    for one in ASKED:
        cells, found = [], took(of, one)
        for name, system in systems.items():
            told = us(one, system)
            errors[name].append(abs(told / found - 1))
            cells.append(f"{told:,.0f} | {told / found:.2f}")
        what = f"batch {one.batch}" if one.name == "decode" else f"{one.context:,} tokens"
        step = ", step of 32 layers" if one.step else ""
        yield f"| {one.name}, {what}{step} | {found:,.0f} | {' | '.join(cells)} |"
    for title, reduced in (("median error", median), ("worst error", max)):
        cells = [f"| {100 * reduced(errors[name]):.1f}%" for name in systems]  # type: ignore[operator]
        yield f"| **{title}** | | {' | '.join(cells)} |"


def groups(one: Calibration) -> Iterator[str]:
    """The errors of single kernels."""
    yield "| kernels | fitted | judged | median error | worst | data sheet: median | worst |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for each in one.errors:
        cells = " | ".join(f"{100 * value:.1f}%" for value in each[3:])
        yield f"| {each.group} | {each.fitted} | {each.judged} | {cells} |"


def numbers(one: System) -> str:
    """What was fitted, as fields."""

    def curve(lines: Sequence[tuple[float, float]]) -> str:
        return ", ".join(f"[{least:.0e}, {share:.3g}]".replace("e+", "e") for least, share in lines)

    chip, memory = one.chip, one.memory
    return prose(
        f"`chip.launch_ns` {chip.launch_ns:,.0f}, `memory.efficiency` {memory.efficiency:.3f}, `chip.efficiency`",
        f"[{curve(chip.efficiency)}], `chip.attention` [{curve(chip.attention)}], `memory.fetch_efficiency`",
        f"[{curve(memory.fetch_efficiency[''])}].",
    )


def page() -> str:
    """The whole page."""
    own = {card: fitted(card) for card in CARDS}
    sheets = {card: machine(card, (1,)) for card in CARDS}
    moved = with_memory(own["h100-sxm"].system, sheets["h200"])
    parts = [HEAD]
    for card, name in (("h100-sxm", "H100"), ("h200", "H200")):
        systems = {"data sheet": sheets[card], "own kernels": own[card].system}
        if card == "h200":
            systems["H100's kernels"] = moved
        parts += [f"\n## {name}\n", numbers(own[card].system), "", *groups(own[card]), "", *compared(card, systems)]
    return "\n".join(parts) + "\n"


HEAD = "\n\n".join(
    (
        "# Machines calibrated from kernels, judged by whole layers",
        prose(
            "`python -m benchmarks.calibrated_machines` fits [one H100](measured-h100.csv) and [one",
            "H200](measured-h200.csv), as [`chipmap calibrate`](../../docs/families/dataflow-calibration.md) does, to",
            "single kernels in bf16. Layers of Llama3-8B judge: none is fitted. The H200 was measured on one occasion,",
            "at up to 1,980 MHz, memory at 3,201 MHz, limit 700 W, with PyTorch 2.11.0+cu130, cuDNN 91900, driver",
            "580.159.04.",
        ),
        prose(
            "*H100's kernels* are the H100's numbers with the H200's rate of DRAM, 4,800 bytes/ns. No kernel of the",
            "H200 is known then. Layers are compiled and run as CUDA graphs. Those of training run for two seconds",
            "before. Decoding has a context of 2,048 tokens. All predictions are of the kernels that ran, attention",
            "one of them. The data sheet's are at the whole peak, without launches. A ratio is predicted / measured.",
        ),
        prose(
            "Training is predicted too fast. At its limit of 700 W the card's clock falls, and kernels were measured",
            "in short bursts. Every fourth row judges single kernels, and all of fp8. That each kind of kernel has the",
            "same weight in the fit was chosen with these layers in sight. Without weights the median error was 4.9%",
            "on the H100 and 8.4% on the H200.",
        ),
    )
)


def main() -> int:
    """Write the page, and the kernels where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    if given.export is not None:
        given.export.mkdir(parents=True, exist_ok=True)
        for card, path in CARDS.items():
            (given.export / f"{card}.csv").write_text(text_of(kernels(read_rows(path)[0])))
    given.out.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
