"""A wafer floorplan as one picture: kernels to scale, wires, and each kernel's share of the slowest one's time.

A kernel's colour is its stage (kernels with the same size of tensor, from input to output), its strength how long it
works: the slowest is opaque. With a second floorplan of the same instance the two stand side by side. What the checker
refuses is drawn as it is: overlapping kernels show through each other, and those beyond the fabric are framed in red.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chipmap.instances.wafer.costs import TICKS, Convolution, WaferProblem, conv_time, evaluate, size, wafer_problem
from chipmap.instances.wafer.instance import CONVOLUTIONS, Placement, WaferInstance, WaferSolution
from chipmap.records import InputError
from chipmap.report.tables import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg", ".pdf")
INK, MUTED, RULE, RED, PAPER = "#1f2933", "#66727f", "#d9dee3", "#c81e1e", "#f7f8f9"
#: Okabe and Ito's colours, readable by colour-blind people, in the order of the stages; more stages repeat them.
STAGES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00")
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.edgecolor": RULE,
    "svg.hashsalt": "chipmap",
}
#: Kernels that get their names written on them.
NAMED = 250


@dataclass(frozen=True)
class Box:
    """A kernel on the fabric: its tiles, its time in quarters of a step and its stage."""

    name: str
    x: int
    y: int
    width: int
    height: int
    time: int
    stage: int

    @property
    def centre(self) -> tuple[float, float]:
        """The centre in tiles."""
        return self.x + self.width / 2, self.y + self.height / 2


def plot(
    instance: WaferInstance, solution: WaferSolution, path: str | Path, after: WaferSolution | None = None
) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF by its suffix); with ``after``, that floorplan beside it.

    Raises :class:`InputError` for another suffix, for a floorplan that doesn't fit the instance, and where the file
    can't be written.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("no such plot format", str(path), f"Let the file name end in {', '.join(SUFFIXES)}.")
    problem = wafer_problem(instance)
    plans = [ordered(problem, one) for one in (solution, after) if one is not None]
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        tall = min(12.0, max(4.0, 8.0 * instance.fabric.height / instance.fabric.width))
        figure = Figure(figsize=(8.6 * len(plans), tall + 0.8), dpi=150, facecolor="white", layout="constrained")
        for axes, plan in zip(np.atleast_1d(figure.subplots(1, len(plans))), plans, strict=True):
            _draw(axes, problem, plan)
        figure.suptitle(instance.name, x=0.01, ha="left", fontweight="bold")
        stamp: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
        try:
            figure.savefig(path, metadata=stamp)
        except OSError as error:
            raise InputError(f"can't be written: {error.strerror or error}", str(path), "Check the folder.") from None


def ordered(problem: WaferProblem, solution: WaferSolution) -> list[Placement]:
    """The placements in the order of the problem. Raises :class:`InputError` if they are not one per kernel."""
    remedy = "Plot a solution of this very instance."
    by_name = {p.kernel: p for p in solution.placements}
    kinds = {kernel.name: kernel.kind for kernel in problem.instance.kernels}
    if len(by_name) != len(solution.placements) or set(by_name) != set(problem.names):
        raise InputError("does not place every kernel once", "solution.placements", remedy)
    for p in by_name.values():
        count = CONVOLUTIONS[kinds[p.kernel]]
        if not len(p.c) == len(p.k) == count or min(p.h, p.w, *p.c, *p.k) < 1:
            raise InputError(f"has impossible arguments for {p.kernel!r}", "solution.placements", remedy)
        if max(abs(p.x), abs(p.y), p.h, p.w, *p.c, *p.k) > 10**6:
            raise InputError(f"places {p.kernel!r} beyond any fabric", "solution.placements", remedy)
    return [by_name[name] for name in problem.names]


def boxes(problem: WaferProblem, placements: Sequence[Placement]) -> list[Box]:
    """The kernels as drawn."""
    sides = sorted({_tensor(convs) for convs in problem.convs}, reverse=True)
    found = []
    for p, convs in zip(placements, problem.convs, strict=True):
        width, height = size(p)
        arrays = np.array(convs, dtype=np.int64)
        time = max(int(conv_time(conv, p.h, p.w, c, k)) for conv, c, k in zip(arrays, p.c, p.k, strict=True))
        found.append(Box(p.kernel, p.x, p.y, width, height, time, sides.index(_tensor(convs))))
    return found


def _tensor(convs: Sequence[Convolution]) -> tuple[int, int]:
    """Height and width of what a kernel's last convolution makes."""
    last = convs[-1]
    return -(-last.H // last.T), -(-last.W // last.T)


def _draw(axes: Axes, problem: WaferProblem, placements: Sequence[Placement]) -> None:
    from matplotlib.patches import Rectangle

    drawn = boxes(problem, placements)
    slowest = max(box.time for box in drawn)
    fabric = problem.instance.fabric
    axes.add_patch(Rectangle((0, 0), fabric.width, fabric.height, facecolor=PAPER, edgecolor=INK, linewidth=1.0))
    for box in drawn:
        inside = box.x >= 0 and box.y >= 0 and box.x + box.width <= fabric.width and box.y + box.height <= fabric.height
        axes.add_patch(
            Rectangle(
                (box.x, box.y),
                box.width,
                box.height,
                facecolor=(*_rgb(STAGES[box.stage % len(STAGES)]), 0.15 + 0.7 * box.time / slowest),
                edgecolor="white" if inside else RED,
                linewidth=0.6 if inside else 1.5,
            )
        )
    _wires(axes, problem, drawn)
    if len(drawn) <= NAMED:
        _names(axes, problem, drawn)
    parts = evaluate(problem, placements)
    axes.set_title(
        f"score {number(parts.score / TICKS)}   time {number(parts.time / TICKS)}   wire {number(parts.wire / 2)}   "
        f"adapters {parts.adapters}"
    )
    axes.set_xlim(min(0, *(box.x for box in drawn)), max(fabric.width, *(box.x + box.width for box in drawn)))
    axes.set_ylim(min(0, *(box.y for box in drawn)), max(fabric.height, *(box.y + box.height for box in drawn)))
    axes.set_aspect("equal")
    axes.set_xlabel("tiles; colour: stage, strength: share of the slowest kernel's time; arrows: wires")


def _wires(axes: Axes, problem: WaferProblem, drawn: Sequence[Box]) -> None:
    width = 1.1 if len(problem.edges) <= NAMED else 0.4
    for u, v in problem.edges.tolist():
        arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": width, "alpha": 0.75, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=drawn[v].centre, xytext=drawn[u].centre, arrowprops=arrow)


def _names(axes: Axes, problem: WaferProblem, drawn: Sequence[Box]) -> None:
    """Each kernel's name, in the largest of three sizes that its box has room for."""
    tiles_per_point = max(problem.width, problem.height) / 520
    for box in drawn:
        along, across = max(box.width, box.height), min(box.width, box.height)
        for points in (9, 7, 5):
            if along >= 0.65 * points * len(box.name) * tiles_per_point and across >= 1.2 * points * tiles_per_point:
                turn = 90 if box.height > box.width else 0
                place: dict[str, Any] = {
                    "ha": "center",
                    "va": "bottom" if not turn else "center",
                    "rotation": turn,
                    "fontsize": points,
                }
                axes.text(*box.centre, box.name, **place)
                break


def _rgb(colour: str) -> tuple[float, float, float]:
    """The three parts of #rrggbb, from 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
