"""A sweep of placements as pictures: step time, its bound, and where the time goes, over the last axis.

A bar is a point. Its parts are those of the path of data (or of the device that sets the pace), which add up to the
objective. A black line is the bound: nothing is below it. Where the last axis is the number of devices, a dotted line
shows the fewest devices' time shared out evenly. The axis before the last one gives the columns of panels, the one
before that the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep
from chipmap.records.quantities import share
from chipmap.report.canvas import COLOURS, INK, MUTED, blank, groups, labels
from chipmap.result import gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The parts of a bar from the bottom up: figure of a row, colour, words.
PARTS = (
    ("computing_ms", COLOURS[0], "computing"),
    ("transfers_ms", COLOURS[1], "transfers"),
    ("device_wait_ms", "#b9c4cf", "waiting for a busy device"),
    ("channel_wait_ms", COLOURS[3], "waiting for a busy channel"),
    ("other_wait_ms", "#e3e7eb", "other waits"),
)
#: Nanoseconds in a millisecond; inches of a panel.
MS, WIDTH, HEIGHT = 1e6, 3.4, 1.75


def is_placement(rows: Sequence[Row]) -> bool:
    """Whether the rows are of placements."""
    return any(PARTS[0][0] in row.figures for row in rows)


def figures(sweep: Sweep, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:
    """(name, figure) for each combination of labels of all axes but the last three."""
    axes = [axis.name for axis in sweep.axes]
    axes = [*(name for name in rows[0].labels if name not in axes), *axes]  # several methods, several seeds
    for group, own in groups(rows, axes[:-3]).items():
        label = " ".join(group)
        yield f"{label} scaling".strip(), scaling(own, axes[-3:], label or sweep.name)


def scaling(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """The panels of one figure."""
    across, *named = (*reversed(axes), "", "")[:3]  # of columns and lines: "" where there is none
    columns, lines = (labels(rows, name) if name else [""] for name in named)
    figure = blank((1.0 + WIDTH * len(columns), 1.0 + HEIGHT * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), len(columns), squeeze=False, sharey="row")
    for (i, line), (k, column) in product(enumerate(lines), enumerate(columns)):
        wanted = {name: label for name, label in zip(named, (column, line), strict=True) if name}
        own = {row.labels[across]: row for row in rows if wanted.items() <= row.labels.items()}
        _panel(grid[i][k], own, labels(rows, across), across)
        grid[i][k].set_title(", ".join(filter(None, (line, column))), loc="left", fontsize=8.5)
        if k == 0:
            grid[i][k].set_ylabel("ms", fontsize=7.5)
        if i + 1 == len(lines):
            grid[i][k].set_xlabel(across, fontsize=8)
    handles, words = _legend()
    figure.legend(handles, words, ncols=4, loc="outside lower center", fontsize=7.5)
    figure.suptitle(f"{title}: where the time goes", x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def _panel(plane: Axes, rows: dict[str, Row], places: list[str], across: str) -> None:
    """A bar per label, its bound, and the even share where devices are counted."""
    top = max(((row.objective or 0) / MS for row in rows.values()), default=0.0)
    for x, label in enumerate(places):
        row = rows.get(label)
        if row is None or row.objective is None or PARTS[0][0] not in row.figures:
            plane.text(x, 0.02 * top, "none", ha="center", fontsize=6.5, color=MUTED)
            continue
        low = 0.0
        for name, colour, _ in PARTS:
            plane.bar(x, row.figures[name], 0.62, bottom=low, color=colour)
            low += row.figures[name]
        if row.bound is not None:
            plane.hlines(row.bound / MS, x - 0.4, x + 0.4, color=INK, linewidth=1.4)
        far = gap(row.objective, row.bound)
        told = "optimal" if far == 0 else "" if far is None else f"gap {share(far)}"
        white = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3}
        words = f"{row.objective / MS:.4g}\n{told}".strip()
        plane.text(x, low + 0.03 * top, words, ha="center", va="bottom", fontsize=6.5, bbox=white)
    first = rows.get(places[0])
    counts = [int(label) for label in places if label.isdigit()]
    if across == "devices" and len(counts) == len(places) and first is not None and first.objective:
        even = [first.objective / MS * counts[0] / count for count in counts]
        plane.plot(range(len(places)), even, ":", color=MUTED, linewidth=1.0, zorder=1.5)
    plane.set_xticks(range(len(places)), places, fontsize=8)
    plane.set_ylim(0, max(plane.get_ylim()[1], 1.3 * top or 1.0))
    plane.tick_params(length=0, labelsize=7.5)
    plane.grid(axis="y")


def _legend() -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(facecolor=colour) for _, colour, _ in PARTS]
    handles += [Line2D([], [], color=INK, linewidth=1.4), Line2D([], [], color=MUTED, linestyle=":", linewidth=1.0)]
    return handles, [*(words for _, _, words in PARTS), "bound", "fewest devices' time, shared out evenly"]
