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

from chipmap.instances.wafer.instance import CONVOLUTIONS, Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import TICKS, Convolution, WaferProblem, conv_time, evaluate, size, wafer_problem
from chipmap.records import InputError
from chipmap.records.quantities import number
from chipmap.report.canvas import COLOURS, INK, RED, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "#f7f8f9"
#: In the order of the stages; more stages repeat them.
STAGES = (*COLOURS[:6], "#8c8c00")
#: With more kernels, only large ones get their names written on them, and wires are thin.
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


def plot(instance: WaferInstance, solution: WaferSolution, path: str | Path, bound: int | None = None) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF), with ``bound`` (ticks) and gap in its title; errors as of
    :func:`plot_both`."""
    _plot(instance, [solution], path, bound)


def plot_both(instance: WaferInstance, before: WaferSolution, after: WaferSolution, path: str | Path) -> None:
    """Draw two floorplans side by side.

    Raises :class:`InputError` for another suffix, for a floorplan that doesn't fit the instance, and where the file
    can't be written.
    """
    _plot(instance, [before, after], path)


def _plot(
    instance: WaferInstance, solutions: Sequence[WaferSolution], path: str | Path, bound: int | None = None
) -> None:
    problem = wafer_problem(instance)
    plans = [ordered(problem, solution) for solution in solutions]
    tall = min(12.0, max(4.0, 8.0 * instance.fabric.height / instance.fabric.width))
    with picture(path, (8.6 * len(plans), tall + 0.8)) as figure:
        for axes, plan in zip(np.atleast_1d(figure.subplots(1, len(plans))), plans, strict=True):
            _draw(axes, problem, plan)


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
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator

    drawn = boxes(problem, placements)
    slowest = max(box.time for box in drawn)
    fabric = problem.instance.fabric
    axes.add_patch(Rectangle((0, 0), fabric.width, fabric.height, facecolor=PAPER, edgecolor=INK, linewidth=1.0))
    for box in drawn:
        inside = box.x >= 0 and box.y >= 0 and box.x + box.width <= fabric.width and box.y + box.height <= fabric.height
        face = to_rgba(STAGES[box.stage % len(STAGES)], 0.15 + 0.7 * box.time / slowest)
        edge: Any = {"edgecolor": "white", "linewidth": 0.6} if inside else {"edgecolor": RED, "linewidth": 1.5}
        axes.add_patch(Rectangle((box.x, box.y), box.width, box.height, facecolor=face, **edge))
    _wires(axes, problem, drawn)
    _names(axes, problem, drawn, small=len(drawn) <= NAMED)
    parts = evaluate(problem, placements)
    score, time, wire = map(number, (parts.score / TICKS, parts.time / TICKS, parts.wire / 2))
    title = f"score {score}   time {time}   wire {wire}   adapters {parts.adapters:,}"
    axes.set_title(f"{problem.instance.name}\n{title}")
    axes.set_xlim(min(0, *(box.x for box in drawn)), max(fabric.width, *(box.x + box.width for box in drawn)))
    axes.set_ylim(min(0, *(box.y for box in drawn)), max(fabric.height, *(box.y + box.height for box in drawn)))
    axes.set_aspect("equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("tiles; colour: stage, strength: share of the slowest kernel's time; arrows: wires")


def _wires(axes: Axes, problem: WaferProblem, drawn: Sequence[Box]) -> None:
    if not len(problem.edges):
        return
    centres = np.array([box.centre for box in drawn])
    x, y = centres[problem.edges[:, 0]].T
    dx, dy = (centres[problem.edges[:, 1]] - centres[problem.edges[:, 0]]).T
    width = 0.0025 if len(problem.edges) <= NAMED else 0.001
    axes.quiver(
        x, y, dx, dy, angles="xy", scale_units="xy", scale=1, width=width, color=INK, alpha=0.75, headwidth=5, zorder=3
    )


def _names(axes: Axes, problem: WaferProblem, drawn: Sequence[Box], small: bool) -> None:
    """Each kernel's name in its lower left corner, away from most wires, in the largest of three sizes that has room,
    or, unless ``small``, in the largest alone."""
    tiles_per_point = max(problem.width, problem.height) / 520
    for box in drawn:
        along, across = max(box.width, box.height), min(box.width, box.height)
        for points in (9, 7, 5) if small else (9,):
            if along >= 0.65 * points * len(box.name) * tiles_per_point and across >= 1.2 * points * tiles_per_point:
                tall = box.height > box.width
                where: dict[str, Any] = {"xytext": (2, 3), "textcoords": "offset points", "ha": "left", "va": "bottom"}
                axes.annotate(box.name, (box.x, box.y), fontsize=points, rotation=90 if tall else 0, **where)
                break
