"""The front of latency and energy that a sweep over ``task.latency_limit_ns`` has found and proved, as a picture.

A row of the sweep says: within its limit on T1 a schedule of energy T2 is known, and none has less energy than the
row's bound. So all rows together prove a region without any schedule, below and to the left of a staircase. Above and
to the right of a found schedule is what is no better than it; between the two it is open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep, points
from chipmap.records import counted
from chipmap.records.quantities import percent
from chipmap.report.canvas import COLOURS, INK, MUTED, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMIT = "task.latency_limit_ns"
BLUE, PROVED, ORANGE = COLOURS[0], "#c9ced4", COLOURS[1]
#: Colours of other solutions.
OTHERS = (COLOURS[2], COLOURS[3], COLOURS[5], COLOURS[7], COLOURS[4])
#: Free space around the points, as a share of what they span.
MARGIN = 0.07


@dataclass(frozen=True)
class Step:
    """A point of a front: the limit on T1 in s, T1 and T2 of the schedule within it, the bound on T2 in J."""

    limit: float
    time: float
    energy: float
    bound: float

    @property
    def gap(self) -> float:
        """(T2 - bound) / T2."""
        return (self.energy - self.bound) / self.energy if self.energy else 0.0


@dataclass(frozen=True)
class Front:
    """The points of one instance by their limits, and solutions to show beside them: name -> (T1, T2)."""

    title: str
    steps: tuple[Step, ...]
    others: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def floor(self) -> list[tuple[float, float]]:
        """(limit, energy that no schedule within it undercuts), by limits: a bound holds within smaller limits, too."""
        found: list[tuple[float, float]] = []
        for step in reversed(self.steps):
            found.append((step.limit, max(step.bound, found[-1][1] if found else 0.0)))
        return found[::-1]

    @property
    def kept(self) -> list[Step]:
        """The steps whose schedules no other step's schedule is better than in one term and as good in the other."""
        return [one for one in self.steps if not any(dominates(other, one) for other in self.steps)]


def dominates(a: Step, b: Step) -> bool:
    """Whether a's schedule is as good as b's in both terms and better in one."""
    return a.time <= b.time and a.energy <= b.energy and (a.time, a.energy) != (b.time, b.energy)


def fronts_of(sweep: Sweep, rows: Sequence[Row]) -> list[Front]:
    """The fronts in a sweep of family ``multimodel`` over limits on latency, with objective energy; else none."""
    limits = {point.key: point.set[LIMIT] for point in points(sweep) if point.set.get(LIMIT)}
    found: dict[str, list[Step]] = {}
    for row in rows:
        if row.key in limits and row.bound is not None and row.units is not None and row.units.objective.name == "J":
            own = row.figures.get("latency_s"), row.figures.get("energy_j")
            if own[0] is not None and own[1] is not None:
                step = Step(limits[row.key] / 1e9, own[0], own[1], row.bound / 1e12)
                more = [label for axis, label in row.labels.items() if axis in ("method", "seed")]
                found.setdefault(" ".join([row.instance, *more]), []).append(step)
    order = {title: sorted(steps, key=lambda step: step.limit) for title, steps in found.items()}
    return [Front(title, tuple(steps)) for title, steps in order.items() if len(steps) > 1]


def draw(front: Front, path: Path) -> Path:
    """Draw a front to ``path`` (PNG, SVG or PDF); returns it."""
    with picture(path, (7.6, 4.8)) as figure:
        axes = figure.subplots()
        _regions(axes, front)
        _points(axes, front)
        worst = max(step.gap for step in front.steps)
        words = f"{counted(len(front.steps), 'limit')} on latency, gaps up to {percent(worst)}"
        axes.set_title(f"{front.title}: latency and energy")
        axes.set_title(words, loc="right", fontsize=8.5, fontweight="normal", color=MUTED, y=-0.19)
        axes.set_xlabel("latency T1, s (logarithmic)")
        axes.set_ylabel("energy T2, J")
        axes.legend(loc="upper right", fontsize=8)
    return path


def _window(front: Front) -> tuple[tuple[float, float], tuple[float, float]]:
    """What is shown: the points, limits, bounds and other solutions near them, with a margin."""
    others = [one for one in front.others.values() if one[0] <= 1.3 * front.steps[-1].limit]
    xs = [
        max(x, 1e-9) for x in (*(x for step in front.steps for x in (step.time, step.limit)), *(x for x, _ in others))
    ]
    ys = [y for step in front.steps for y in (step.energy, step.bound)] + [y for _, y in others]
    span, high = max(xs) / min(xs), max(max(ys) - min(ys), 1e-9)
    wide = max(span, 1.001) ** MARGIN
    return (min(xs) / wide, max(xs) * wide), (min(ys) - 2 * MARGIN * high, max(ys) + MARGIN * high)


def _regions(axes: Axes, front: Front) -> None:
    """What is proved empty, what is known to be possible, and the best product."""
    (left, right), (low, high) = _window(front)
    floor, kept = front.floor, sorted(front.kept, key=lambda step: step.time)
    edges, heights = [left, *(limit for limit, _ in floor)], [energy for _, energy in floor]
    axes.stairs(heights, edges, baseline=low, fill=True, color=PROVED, label="no schedule (proved)", zorder=1)
    axes.stairs(heights, edges, baseline=None, color=INK, linewidth=1.0, zorder=2)
    edges, heights = [*(step.time for step in kept), right], [step.energy for step in kept]
    axes.stairs([high] * len(heights), edges, baseline=heights, fill=True, color=BLUE, alpha=0.13, zorder=1,
                label="schedules found")  # fmt: skip
    axes.stairs(heights, edges, baseline=None, color=BLUE, linewidth=1.0, zorder=2)
    product = min(step.time * step.energy for step in kept)
    xs = [left * (right / left) ** (i / 200) for i in range(201)]
    label = f"T1 · T2 = {product:.4g} J·s"
    axes.plot(xs, [product / x for x in xs], ":", color=ORANGE, linewidth=1.4, label=label, zorder=2)
    axes.set_xscale("log")
    step = next(
        step for k in range(-9, 12) for step in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if (right - left) / step < 8
    )
    marks = [step * i for i in range(math.ceil(left / step), math.floor(right / step) + 1)]
    first = [mark for mark in (step / 5 * i for i in range(1, 10)) if left < mark < marks[0]] if marks else []
    axes.set_xticks([*first, *marks], [f"{mark:g}" for mark in (*first, *marks)])
    axes.set_xticks([], minor=True)
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)


def _points(axes: Axes, front: Front) -> None:
    """The found schedules, each with a line down to its bound; other solutions as crosses."""
    for step in front.steps:
        axes.plot([step.time, step.time], [step.bound, step.energy], color=BLUE, linewidth=0.8, alpha=0.6, zorder=3)
    xs, ys = [step.time for step in front.steps], [step.energy for step in front.steps]
    axes.plot(xs, ys, "o", color=BLUE, markersize=4.5, label="certified points, with their bounds", zorder=4)
    for i, (name, (time, energy)) in enumerate(front.others.items()):
        axes.plot(time, energy, "x", color=OTHERS[i % len(OTHERS)], markersize=6, label=name, zorder=5)
