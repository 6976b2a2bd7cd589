"""The rows of a sweep as pictures: heat maps, latency breakdowns, a hierarchical roofline, curves over one axis.

What is drawn follows from the axes. Figures of DFModel that they stand for are named at each function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.bench.point import Row
from chipmap.records import InputError
from chipmap.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, RULE = "#1f2933", "#d9dee3"
#: Okabe and Ito's colours, readable by colour-blind people.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
}
#: What a heat map shows: figure of a row, title, factor.
MAPS = (
    ("utilisation", "utilisation, %", 100.0),
    ("gflops_per_usd", "GFLOP/s per $", 1.0),
    ("gflops_per_watt", "GFLOP/s per W", 1.0),
)
_PARTS = ("compute", "memory", "network")


def plots(sweep: Sweep, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw what the rows hold to PNG files in ``folder``; returns them.

    The last two axes span a picture (rows by columns), the one before gives a panel each, all others a file each;
    several methods or seeds are axes before the others. One axis gives curves. Raises :class:`InputError` where there
    is nothing to draw.
    """
    import matplotlib

    drawn = [row for row in rows if row.figures]
    if not sweep.axes or not any("pflops" in row.figures for row in drawn):
        raise InputError(
            "no row has figures to draw", "--plots", "Sweep family dataflow over an axis; --csv has all rows."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(_STYLE):
            return [_save(figure, folder / f"{name}.png") for name, figure in _figures(sweep, drawn)]
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", str(folder), "Check the folder.") from None


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=130, bbox_inches="tight")
    return path


def _figures(sweep: Sweep, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    axes = [axis.name for axis in sweep.axes]
    axes = [*(name for name in rows[0].labels if name not in axes), *axes]  # several methods, several seeds
    apart, left = axes[:-3], axes[-3:]
    for group in dict.fromkeys(tuple(row.labels[name] for name in apart) for row in rows):
        own = [row for row in rows if tuple(row.labels[name] for name in apart) == group]
        label = " ".join(group)
        prefix = f"{_file(label)}-" if label else ""
        solved = [row for row in own if "pflops" in row.figures]
        if solved and len(left) > 1:
            yield f"{prefix}heat", heat_maps(own, left, label or sweep.name)
        if solved:
            yield f"{prefix}curves", curves(solved, left, label or sweep.name)
            yield f"{prefix}latency", latencies(solved, left, label or sweep.name)
            yield f"{prefix}roofline", roofline(solved, left[0], label or sweep.name)


def _labels(rows: Sequence[Row], axis: str) -> list[str]:
    return list(dict.fromkeys(row.labels[axis] for row in rows))


def _file(label: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in label).strip("-").lower()


def heat_maps(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Utilisation, cost efficiency and power efficiency, a panel for every label of the first axis where there are
    three (DFModel, figures 10, 12, 14, 16)."""
    from matplotlib.figure import Figure

    panels = _labels(rows, axes[0]) if len(axes) > 2 else [""]
    down, across = axes[-2:]
    size = (2.2 + 2.0 * len(panels), 6.4)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(MAPS), len(panels), squeeze=False)
    for i, (name, words, factor) in enumerate(MAPS):
        most = max((row.figures.get(name, 0.0) for row in rows), default=0.0) * factor
        for k, panel in enumerate(panels):
            own = [row for row in rows if not panel or row.labels[axes[0]] == panel]
            spot = {(row.labels[down], row.labels[across]): row for row in own}
            cells = [
                [_cell(spot.get((y, x)), name, factor) for x in _labels(rows, across)] for y in _labels(rows, down)
            ]
            _heat(grid[i][k], cells, (_labels(rows, down), _labels(rows, across)), most)
            grid[i][k].set_title(f"{panel}\n{words}" if panel and k == 0 else panel or words)
    for line in grid:
        line[0].set_ylabel(down, fontsize=7)
    for panel_axes in grid[-1]:
        panel_axes.set_xlabel(across, fontsize=7)
    figure.suptitle(f"{title}, by {axes[0]}" if len(axes) > 2 else title)
    return figure


def _cell(row: Row | None, name: str, factor: float) -> float:
    return row.figures[name] * factor if row is not None and name in row.figures else float("nan")


def _heat(axes: Axes, cells: list[list[float]], names: tuple[list[str], list[str]], most: float) -> None:
    axes.imshow(cells, cmap="viridis", vmin=0.0, vmax=most or 1.0, aspect="auto")
    axes.set_yticks(range(len(names[0])), names[0], fontsize=6)
    axes.set_xticks(range(len(names[1])), names[1], fontsize=6, rotation=45, ha="right")
    for y, line in enumerate(cells):
        for x, value in enumerate(line):
            text = "none" if math.isnan(value) else f"{value:.0f}" if value >= 10 else f"{value:.2g}"
            axes.text(x, y, text, ha="center", va="center", fontsize=6, color=INK if value > most / 2 else "white")


def latencies(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Seconds of compute, memory and network of every point side by side, with its time as a line: what overlaps
    reaches above it (DFModel, figures 11, 13, 15, 17)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.0, 0.16 * len(rows) + 2.5), 3.6), layout="constrained")
    axis = figure.subplots()
    places = range(len(rows))
    for k, part in enumerate(_PARTS):
        heights = [row.figures[f"{part}_s"] for row in rows]
        axis.bar([x + 0.27 * (k - 1) for x in places], heights, width=0.27, color=COLOURS[k], label=part)
    times = [(row.objective or 0) * 1e-12 for row in rows]
    axis.hlines(times, [x - 0.45 for x in places], [x + 0.45 for x in places], color=INK, linewidth=1.4, label="time")
    axis.set_yscale("log")
    axis.margins(x=0.01)
    axis.set_xticks(list(places), [" ".join(row.labels[a] for a in axes) for row in rows], rotation=90, fontsize=5)
    axis.set_ylabel("seconds for the batch")
    axis.legend(frameon=False, ncols=4, loc="upper left", bbox_to_anchor=(0.0, 1.12))
    axis.set_title(title, loc="right")
    return figure


def roofline(rows: Sequence[Row], axis: str, title: str) -> Figure:
    """Throughput of a chip over its operational intensity to DRAM (dots) and links (crosses), below the peaks of the
    rows' chips, memories and links (DFModel, figure 18)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    plane = figure.subplots()
    labels = _labels(rows, axis)
    spots = [0.0]
    for row in rows:
        colour = COLOURS[labels.index(row.labels[axis]) % len(COLOURS)]
        rate = row.figures["pflops"] / row.figures["chips"] * 1000
        for name, mark in (("flop_per_dram_byte", "o"), ("flop_per_link_byte", "x")):
            if row.figures[name] > 0:
                plane.plot(row.figures[name], rate, mark, color=colour, markersize=4)
                spots.append(row.figures[name])
    low, high = min(filter(None, spots), default=1.0) / 3, max(spots) * 3 or 10.0
    for k, label in enumerate(labels):
        own = next(row for row in rows if row.labels[axis] == label)
        peak = own.figures["peak_pflops"] / own.figures["chips"] * 1000
        plane.hlines(peak, low, high, color=COLOURS[k % len(COLOURS)], linewidth=1, label=f"{label} peak")
    for name, dashes in (("dram_gbps", "--"), ("link_gbps", ":")):
        for rate in sorted({row.figures[name] for row in rows}):
            words = f"{'DRAM' if name == 'dram_gbps' else 'link'} {rate:g} GB/s"
            plane.plot(
                [low, high], [low * rate / 1000, high * rate / 1000], dashes, color=INK, linewidth=0.9, label=words
            )
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.set_xlabel("FLOP per byte: of DRAM (dots), of a link (crosses)")
    plane.set_ylabel("TFLOP/s of a chip")
    plane.legend(frameon=False, fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(title)
    return figure


def curves(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Throughput over the last axis, a curve for every combination of the others (DFModel, figures 19 and 22)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    plane = figure.subplots()
    across, others = axes[-1], axes[:-1]
    places = _labels(rows, across)
    groups = list(dict.fromkeys(tuple(row.labels[a] for a in others) for row in rows))
    for k, group in enumerate(groups):
        own = [row for row in rows if tuple(row.labels[a] for a in others) == group]
        values = [row.figures["pflops"] for row in own]
        style = ("-", "--", ":", "-.")[k // len(COLOURS) % 4]
        spots = [places.index(row.labels[across]) for row in own]
        plane.plot(
            spots, values, style, marker="o", markersize=3, color=COLOURS[k % len(COLOURS)], label=" ".join(group)
        )
    plane.set_xticks(range(len(places)), places)
    plane.set_xlabel(across)
    plane.set_ylabel("PFLOP/s")
    plane.set_ylim(bottom=0.0)
    count = math.prod(len(_labels(rows, a)) for a in others)
    if others:
        plane.legend(frameon=False, fontsize=6 if count <= 24 else 4, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(title)
    return figure
