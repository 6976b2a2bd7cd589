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

from chipmap.family import family_of
from chipmap.instances.wafer.instance import CONVOLUTIONS, Placement, WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import TICKS, Convolution, WaferProblem, evaluate, size, wafer_problem
from chipmap.records import InputError
from chipmap.records.quantities import number
from chipmap.report.canvas import COLOURS, INK, RED, named, picture, standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "#f7f8f9"
#: In the order of the stages; more stages repeat them.
STAGES = (*COLOURS[:6], "#8c8c00")
#: With more kernels, only large ones get their names written on them, and wires are thin.
NAMED = 250
#: Where less than this share of both sides is used, the picture shows the used part alone.
USED = 0.7


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
    with picture(path, (9.6 * len(plans), tall + 1.0)) as figure:
        for axes, plan in zip(np.atleast_1d(figure.subplots(1, len(plans))), plans, strict=True):
            _draw(axes, problem, plan, bound)


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
    for v, (p, convs) in enumerate(zip(placements, problem.convs, strict=True)):
        width, height = size(p)
        found.append(Box(p.kernel, p.x, p.y, width, height, problem.time_of(v, p), sides.index(_tensor(convs))))
    return found


def _tensor(convs: Sequence[Convolution]) -> tuple[int, int]:
    """Height and width of what a kernel's last convolution makes; 0 and 0 of a kernel with a table."""
    if not convs:
        return 0, 0
    last = convs[-1]
    return -(-last.H // last.T), -(-last.W // last.T)


def _draw(axes: Axes, problem: WaferProblem, placements: Sequence[Placement], bound: int | None) -> None:
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
        told = f"{box.name}: {box.width} × {box.height} tiles at {box.x}, {box.y}, time {number(box.time / TICKS)}"
        named(axes, box.x, box.y, box.width, box.height, f"{told} of {number(slowest / TICKS)}")
    _wires(axes, problem, drawn)
    across, up = _shown(drawn, fabric.width, fabric.height)
    _names(axes, max(across[1] - across[0], up[1] - up[0]) / 520, drawn, small=len(drawn) <= NAMED)
    parts = evaluate(problem, placements)
    time, wire = map(number, (parts.time / TICKS, parts.wire / 2))
    unit = family_of(problem.instance).units_of(problem.instance).objective
    title = f"time {time} · wire {wire} · adapters {parts.adapters:,}"
    standings = " · ".join(standing(int(parts.score), bound, unit))
    axes.set_title(f"{problem.instance.name}\n{standings}\n{title}", fontsize=9)
    axes.set_xlim(across)
    axes.set_ylim(up)
    axes.set_aspect("equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    part = (
        f", of a fabric of {fabric.width:,} × {fabric.height:,}"
        if across[1] < fabric.width or up[1] < fabric.height
        else ""
    )
    axes.set_xlabel(f"tiles{part}; strength of a colour: share of the slowest kernel's time; arrows: wires")
    axes.set_ylabel("tiles")
    _legend(axes, problem)


def _shown(drawn: Sequence[Box], width: int, height: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """What is shown of both axes: the fabric, or the part that is used where that is much less."""
    left, low = min(box.x for box in drawn), min(box.y for box in drawn)
    right, top = max(box.x + box.width for box in drawn), max(box.y + box.height for box in drawn)
    if min(left, low) >= 0 and max(right / width, top / height) < USED:
        margin = 0.04 * max(right - left, top - low)
        return (max(0.0, left - margin), right + margin), (max(0.0, low - margin), top + margin)
    return (min(0, left), max(width, right)), (min(0, low), max(height, top))


def _legend(axes: Axes, problem: WaferProblem) -> None:
    """The stages by the size of what they hand on, beside the picture; colours that several stages share name all."""
    from matplotlib.patches import Patch

    sides = sorted({_tensor(convs) for convs in problem.convs}, reverse=True)
    names = [f"{i + 1}: {height} × {width}" for i, (height, width) in enumerate(sides)]
    shared = [names[k :: len(STAGES)] for k in range(min(len(STAGES), len(names)))]
    keys = [
        Patch(facecolor=colour, alpha=0.85, label=", ".join(own[:3]) + (" …" if len(own) > 3 else ""))
        for colour, own in zip(STAGES, shared, strict=False)
    ]
    axes.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.0, 1.0), title="stage: tensor", fontsize=7.5)


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


def _names(axes: Axes, tiles_per_point: float, drawn: Sequence[Box], small: bool) -> None:
    """Each kernel's name in its lower left corner, away from most wires, in the largest of three sizes that has room,
    or, unless ``small``, in the largest alone."""
    for box in drawn:
        along, across = max(box.width, box.height), min(box.width, box.height)
        for points in (9, 7, 5) if small else (9,):
            if along >= 0.65 * points * len(box.name) * tiles_per_point and across >= 1.2 * points * tiles_per_point:
                tall = box.height > box.width
                where: dict[str, Any] = {"xytext": (2, 3), "textcoords": "offset points", "ha": "left", "va": "bottom"}
                axes.annotate(box.name, (box.x, box.y), fontsize=points, rotation=90 if tall else 0, **where)
                break
