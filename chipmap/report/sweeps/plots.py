"""The rows of a sweep as pictures: heat maps, latency breakdowns, a hierarchical roofline, curves over one axis.

What is drawn follows from the axes. Figures of DFModel that they stand for are named at each function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.bench.dataflow.groups import is_groups
from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep
from chipmap.records import InputError
from chipmap.report.canvas import COLOURS, INK, MUTED, SMALL, blank, groups, labels, logarithmic, save, styled
from chipmap.report.dataflow.serving_plots import LATENCIES, groups_front, passes
from chipmap.report.multimodel.front import draw, fronts_of
from chipmap.report.placement import scaling
from chipmap.report.sweeps import objectives

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What a heat map shows: figure of a row, title, factor.
MAPS = (
    ("utilisation", "utilisation, %", 100.0),
    ("gflops_per_usd", "GFLOP/s per $", 1.0),
    ("gflops_per_watt", "GFLOP/s per W", 1.0),
)
_PARTS = ("compute", "memory", "network")
#: A label along a slope needs so much of the logarithmic axis beside it, as a factor.
LABEL = 4.0
#: Inches of a letter of a label that stands upright.
LETTER = 0.055
#: What is said where marks or curves may lie on each other.
THINNER = "later ones are drawn smaller, so that equal ones stay visible"


def plots(sweep: Sweep, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw what the rows hold to PNG files in ``folder``; returns them.

    The last two axes span a picture (rows by columns), the one before gives a panel each, all others a file each;
    several methods or seeds are axes before the others. One axis gives curves. Fronts of latency and energy get a
    picture each, placements bars of what their time is spent on. All other rows get their objectives and bounds
    (:mod:`.objectives`). Raises :class:`InputError` where there is nothing to
    draw.
    """
    drawn = [row for row in rows if row.figures]
    if fronts := fronts_of(sweep, drawn):
        return [draw(front, _made(folder) / f"{_file(front.title)}.png") for front in fronts]
    if sweep.axes and scaling.is_placement(drawn):
        _made(folder)
        with styled(**{"figure.dpi": 130}):
            return [save(figure, folder / f"{_file(name)}.png") for name, figure in scaling.figures(sweep, drawn)]
    if not sweep.axes or not any("pflops" in row.figures for row in drawn):
        valued = [row for row in rows if row.objective is not None or row.bound is not None]
        if not valued:
            remedy = "Give the points more time, or look at their statuses: `chipmap report DIR` prints them."
            raise InputError("no row has a value to draw", "--plots", remedy)
        _made(folder)
        with styled(**SMALL, **{"figure.dpi": 130}):
            return [save(figure, folder / f"{name}.png") for name, figure in objectives.figures(sweep, valued)]
    _made(folder)
    with styled(**SMALL, **{"figure.dpi": 130}):
        if is_groups(sweep):
            return [save(groups_front(sweep, rows), folder / "groups.png")]
        return [save(figure, folder / f"{name}.png") for name, figure in _figures(sweep, drawn)]


def _made(folder: Path) -> Path:
    """The folder, made where it isn't there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", str(folder), "Check the folder.") from None
    return folder


def _figures(sweep: Sweep, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    axes = [axis.name for axis in sweep.axes]
    axes = [*(name for name in rows[0].labels if name not in axes), *axes]  # several methods, several seeds
    apart, left = axes[:-3], axes[-3:]
    for group, own in groups(rows, apart).items():
        label = " ".join(group)
        prefix = f"{_file(label)}-" if label else ""
        solved = [row for row in own if "pflops" in row.figures]
        if solved and len(left) > 1:
            yield f"{prefix}heat", heat_maps(own, left, label or sweep.name)
        if solved:
            yield f"{prefix}curves", curves(solved, left, label or sweep.name)
            yield f"{prefix}latency", latencies(solved, left, label or sweep.name)
            yield f"{prefix}roofline", roofline(solved, left[0], label or sweep.name)
        if solved and all(any(name in row.figures for name in LATENCIES) for row in solved):
            yield f"{prefix}serving", passes(solved, left, label or sweep.name)


def _panels(rows: Sequence[Row], axes: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of each label of the first axis where there are three; else one panel without a name."""
    return {" ".join(label): own for label, own in groups(rows, axes[:-2]).items()}


def _file(label: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in label).strip("-").lower()


def heat_maps(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Utilisation and, where chips have prices and powers, cost and power efficiency; a panel for every label of the
    first axis where there are three (DFModel, figures 10, 12, 14, 16)."""
    panels, (down, across) = _panels(rows, axes), axes[-2:]
    maps = [one for one in MAPS if any(row.figures.get(one[0]) for row in rows)] or MAPS[:1]
    figure = blank((2.2 + 2.0 * len(panels), 1.0 + 1.8 * len(maps)), layout="constrained")
    grid = figure.subplots(len(maps), len(panels), squeeze=False)
    for i, (name, words, factor) in enumerate(maps):
        most = max((row.figures.get(name, 0.0) for row in rows), default=0.0) * factor
        for k, (panel, own) in enumerate(panels.items()):
            spot = {(row.labels[down], row.labels[across]): row for row in own}
            cells = [[_cell(spot.get((y, x)), name, factor) for x in labels(rows, across)] for y in labels(rows, down)]
            _heat(grid[i][k], cells, (labels(rows, down), labels(rows, across)), most)
            if panel and i == 0:
                grid[i][k].set_title(_named(axes[0], panel))
        grid[i][0].set_ylabel(f"{words}\n\n{down}", fontsize=7)
    for panel_axes in grid[-1]:
        panel_axes.set_xlabel(across, fontsize=7)
    figure.suptitle(f"{title}, by {axes[0]}" if len(axes) > 2 else title)
    return figure


def _named(axis: str, label: str) -> str:
    """A label that stands alone: with its axis, where it is a number or a share."""
    return f"{axis} {label}" if label[:1].isdigit() else label


def _cell(row: Row | None, name: str, factor: float) -> float:
    return row.figures[name] * factor if row is not None and name in row.figures else float("nan")


def _heat(axes: Axes, cells: list[list[float]], names: tuple[list[str], list[str]], most: float) -> None:
    axes.imshow(cells, cmap="viridis", vmin=0.0, vmax=most or 1.0, aspect="auto")
    axes.set_yticks(range(len(names[0])), names[0], fontsize=6)
    axes.set_xticks(range(len(names[1])), names[1], fontsize=6, rotation=45, ha="right")
    for y, line in enumerate(cells):
        for x, value in enumerate(line):
            missing = math.isnan(value)
            text = "none" if missing else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
            colour = INK if missing or value > most / 2 else "white"
            axes.text(x, y, text, ha="center", va="center", fontsize=6, color=colour)


def latencies(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Seconds of compute, memory and network of every point side by side, with its time as a line: above the longest
    where partitions wait for different things, or for a pipeline to fill. A panel for every label of the first axis
    where there are three (DFModel, figures 11, 13, 15, 17)."""
    panels = _panels(rows, axes)
    far = _far([(row.objective or 0) * 1e-12 for row in rows])
    widest, last = max(map(len, panels.values())), [*panels.values()][-1]
    longest = max(len(" ".join(row.labels[a] for a in axes[len(panels) > 1 :])) for row in rows)
    height = (1.4 + 1.5 * len(panels) if len(panels) > 1 else 3.0) + LETTER * longest
    figure = blank((max(5.0, 0.25 * widest + 2.5), height), layout="constrained")
    planes = figure.subplots(len(panels), 1, squeeze=False, sharey=True)[:, 0]
    for plane, (panel, own) in zip(planes, panels.items(), strict=True):
        _bars(plane, own, far)
        names = [" ".join(row.labels[a] for a in axes if a != axes[0] or not panel) for row in own]
        plane.set_xticks(range(len(own)), names, rotation=90, fontsize=6)
        plane.set_ylabel("seconds for the batch")
        if far:
            logarithmic(plane, "y", "seconds for the batch" if len(panels) == 1 else "seconds")
        plane.set_xlim(-0.8, widest - 0.2)
        if panel:
            plane.set_title(_named(axes[0], panel), loc="left", fontsize=8)
        if own is not last and len(own) == len(last):
            plane.set_xticklabels([])
    handles, words = planes[0].get_legend_handles_labels()
    figure.legend(handles, words, ncols=4, loc="outside upper right", fontsize=7)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _bars(plane: Axes, rows: Sequence[Row], far: bool) -> None:
    """Bars from 0; where points lie far apart (``far``), marks on a logarithmic scale, on which bars have no length."""
    places = range(len(rows))
    for k, part in enumerate(_PARTS):
        heights, spots = [row.figures[f"{part}_s"] for row in rows], [x + 0.27 * (k - 1) for x in places]
        look: Any = {"color": COLOURS[k], "label": part}
        if far:
            shown = [(x, y) for x, y in zip(spots, heights, strict=True) if y > 0]
            plane.plot([x for x, _ in shown], [y for _, y in shown], "osD"[k], markersize=3.5, **look)
        else:
            plane.bar(spots, heights, width=0.27, **look)
    times = [(row.objective or 0) * 1e-12 for row in rows]
    plane.hlines(times, [x - 0.45 for x in places], [x + 0.45 for x in places], color=INK, linewidth=1.4, label="time")


def roofline(rows: Sequence[Row], axis: str, title: str) -> Figure:
    """Throughput of a chip over its operational intensity to DRAM (dots) and links (crosses), below the peaks of the
    rows' chips, memories and links (DFModel, figure 18). A peak that rows of several labels have is grey."""
    figure = blank((6.4, 4.4), layout="constrained")
    plane = figure.subplots()
    colours = dict(zip(labels(rows, axis), cycle(COLOURS), strict=False))
    spots, rates = [0.0], [0.0]
    # later marks are smaller, so that equal ones stay visible
    wide = {label: 4.0 + 3.0 * (1 - (i + 1) / len(colours)) for i, label in enumerate(colours)}
    for row in rows:
        colour = colours[row.labels[axis]]
        rates.append(row.figures["pflops"] / row.figures["chips"] * 1000)
        for name, mark in (("flop_per_dram_byte", "o"), ("flop_per_link_byte", "x")):
            if row.figures[name] > 0:
                plane.plot(row.figures[name], rates[-1], mark, color=colour, markersize=wide[row.labels[axis]])
                spots.append(row.figures[name])
    low, high = min(filter(None, spots), default=1.0) / 3, max(spots) * 3 or 10.0
    whose = _peaks(rows, axis)
    for label, colour in colours.items():
        plane.plot([], [], "s", color=colour, markersize=4, label=label)
    for peak, having in whose.items():
        plane.hlines(peak, low, high, color=colours[having[0]] if len(having) == 1 else MUTED, linewidth=1)
        plane.annotate(f"peak {peak:,.0f}", (high, peak), fontsize=6, va="bottom", ha="right")
    top, floor = max(whose), min(filter(None, rates)) / 3
    _slopes(plane, rows, (low, high), (floor, top))
    plane.set_xlim(low, high)
    plane.set_ylim(floor, top * 6)
    logarithmic(plane, "x", "FLOP per byte: of DRAM (dots), of a link (crosses)")
    logarithmic(plane, "y", "TFLOP/s of a chip")
    plane.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=axis, title_fontsize=7)
    figure.suptitle(title)
    plane.set_title(THINNER, fontsize=6.5, fontweight="normal", color=MUTED)
    return figure


def _peaks(rows: Sequence[Row], axis: str) -> dict[float, list[str]]:
    """The peaks of a chip in TFLOP/s, as printed, with the labels of the rows that have them."""
    found: dict[float, list[str]] = {}
    for row in rows:
        having = found.setdefault(round(row.figures["peak_pflops"] / row.figures["chips"] * 1000), [])
        if row.labels[axis] not in having:
            having.append(row.labels[axis])
    return found


def _slopes(plane: Axes, rows: Sequence[Row], across: tuple[float, float], up: tuple[float, float]) -> None:
    """What memories and links of a rate can bring, from the floor to the highest peak; close ones are named apart."""
    (low, high), (floor, top) = across, up
    named: list[float] = []
    for kind, name, dashes in (("DRAM", "dram_gb_per_s", "--"), ("link", "tensor_link_gb_per_s", ":")):
        for rate in sorted({row.figures.get(name, row.figures["link_gb_per_s"]) for row in rows}):
            left, right = max(low, floor * 1000 / rate), min(high, top * 1000 / rate)
            if left >= right:
                continue
            plane.plot([left, right], [left * rate / 1000, right * rate / 1000], dashes, color=INK, linewidth=0.9)
            inside = right < high / LABEL
            slant: Any = {"rotation": 45, "ha": "left"} if inside else {"ha": "right"}
            lift = 1.0 + 1.2 * sum(abs(math.log10(right / other)) < 0.15 for other in named)
            named.append(right)
            plane.annotate(
                f"{kind} {rate:g} GB/s", (right, lift * right * rate / 1000), fontsize=6, va="bottom", **slant
            )


def _far(values: Sequence[float]) -> bool:
    """Whether the values are too far apart for one linear scale."""
    return max(values) > 20 * min(values) > 0


def curves(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Throughput over the last axis, a curve for every combination of the others (DFModel, figures 19 and 22); only
    marks where the last axis has names, not amounts. Equal curves stay visible, as later ones are thinner; the scale is
    logarithmic where they are far apart."""
    figure = blank((6.4, 4.0), layout="constrained")
    plane = figure.subplots()
    across, others = axes[-1], axes[:-1]
    places, apart = labels(rows, across), groups(rows, others)
    lines = ("-", "--", ":", "-.") if all(place[:1].isdigit() for place in places) else ("",)
    for k, (group, own) in enumerate(apart.items()):
        thick = 1.0 + 3.0 * (1 - (k + 1) / len(apart))
        spots = [places.index(row.labels[across]) for row in own], [row.figures["pflops"] for row in own]
        look: Any = {"color": COLOURS[k % len(COLOURS)], "linewidth": thick, "markersize": 2 * thick + 1}
        dashes = lines[k // len(COLOURS) % len(lines)]
        plane.plot(*spots, linestyle=dashes, marker="o", label=" ".join(group), **look)
    plane.set_xticks(range(len(places)), places)
    plane.set_xlabel(across)
    plane.set_ylabel("PFLOP/s of all chips")
    rates = [row.figures["pflops"] for row in rows]
    if _far(rates):
        logarithmic(plane, "y", "PFLOP/s of all chips")
    else:
        plane.set_ylim(bottom=0.0)
    count = math.prod(len(labels(rows, a)) for a in others)
    if others:
        legend = plane.legend(fontsize=6 if count <= 24 else 4, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        legend.set_title(", ".join(others))
        legend.get_title().set_fontsize(7)
    figure.suptitle(title)
    if others:
        plane.set_title(THINNER, fontsize=6.5, fontweight="normal", color=MUTED)
    return figure
