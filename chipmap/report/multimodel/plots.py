"""A multimodel schedule as one picture: chiplets over time, and the module in each window.

Above, a bar per segment in its model's colour, from when its weights are read to the end of its last mini-batch. The
bar is filled as high as the share of its time for which it works: the slowest segment of a range to the top, the others
less. The segment that sets a window's length is framed in red, the others of its model in black. Windows have the
widths of their times, but short ones are widened so that they can be read; their lengths stand above them.

Below, the module in each window: chiplets at their places with the layers that they run, hatched by class, and arrows
along each model's path. What the checker refuses is drawn as it is, and said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.family import family_of
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.instances.multimodel.timeline import PARTS, Range, Span, TimelineWindow, all_energies, energies, timeline
from chipmap.records import InputError
from chipmap.records.quantities import duration, in_unit, share
from chipmap.report.canvas import COLOURS, INK, MUTED, RED, RULE, named, picture, standing
from chipmap.report.gantt import heading, light, round_times
from chipmap.validation.multimodel.checker import check

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches from left to right, and the width that a window has at least, as a share of it.
WIDTH, NARROW = 13.0, 0.11
#: Maps in a row; with more than LARGE chiplets there is room for fewer.
MAPS, MAPS_LARGE, LARGE = 5, 3, 16
#: Entries of the legend in a row.
ROW_OF_KEYS = 9
#: What a letter of a point takes of the width.
LETTER = 0.00075
#: Hatches of the classes of chiplets, in alphabetical order; more classes repeat them.
HATCHES = ("", "////", "....", "xxxx", "----", "++++")
#: Colours of models in their order; more models repeat them.
MODELS = (*COLOURS[:6], "#8c8c00", "#7d5ba6", "#8a5a44", "#5b7a99")
FREE = "#f2f4f6"
#: Colours of what energy is spent on.
SPENT = ("#5b7a99", "#d55e00", "#e69f00", "#b9c9d8")


@dataclass(frozen=True, eq=False)
class _View:
    """What the panels draw: the schedule in time, the left and right ends of windows in the picture (0 to 1), and where
    chiplets are in a map."""

    problem: MultiProblem
    windows: tuple[TimelineWindow, ...]
    ends: tuple[tuple[float, float], ...]
    places: tuple[tuple[float, float], ...]

    @property
    def total(self) -> int:
        """T1."""
        return sum(window.time for window in self.windows)

    def at(self, window: TimelineWindow, time: int) -> float:
        """Where a time of that window lies in the picture."""
        left, right = self.ends[window.number]
        return left + (right - left) * (time - window.start) / max(1, window.time)


def plot(instance: MultiInstance, solution: MultiSolution, path: str | Path, bound: int | None = None) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF by its suffix), with ``bound`` (ticks) and gap in its title.

    Raises :class:`InputError` for another suffix, for a schedule of something else, and where the
    file can't be written.
    """
    problem = multi_problem(instance)
    windows = timeline(problem, solution)
    if not windows:
        raise InputError("has no segment", "solution.windows", "Plot a schedule with a window.")
    view = _View(problem, windows, _ends([window.time for window in windows]), _places(problem))
    chart = max(2.4, 0.26 * problem.chiplets + 0.7)
    most = MAPS if problem.chiplets <= LARGE else MAPS_LARGE
    cells = len(windows) + 1  # the last one is for the energies
    rows, across = -(-cells // most), min(most, max(3, cells))
    xs, ys = ({place[i] for place in view.places} for i in (0, 1))
    shape = (max(ys) - min(ys) + 1.2) / (max(xs) - min(xs) + 1.2)
    maps = min(4.2, max(1.6, shape * 0.9 * WIDTH / across))
    gap = 0.6 * (1 + rows) / (chart + rows * maps)
    with picture(path, (WIDTH, 1.25 + chart + rows * (maps + 0.6) + 0.1)) as figure:
        grid = figure.add_gridspec(1 + rows, across, height_ratios=[chart, *[maps] * rows], hspace=gap, wspace=0.06,
                                   left=0.07, right=0.99, top=1 - 1.25 / figure.get_figheight(),
                                   bottom=0.1 / figure.get_figheight())  # fmt: skip
        _title(figure, view, solution, bound)
        _chart(figure.add_subplot(grid[0, :]), view)
        for window in windows:
            _map(figure.add_subplot(grid[1 + window.number // most, window.number % most]), view, window)
        _energies(figure.add_subplot(grid[rows, len(windows) % most :]), view)


def _ends(times: list[int]) -> tuple[tuple[float, float], ...]:
    """Left and right ends of windows side by side from 0 to 1: as wide as long, but at least NARROW."""
    least = min(NARROW, 1 / len(times))
    narrow = {i for i, time in enumerate(times) if time <= least * sum(times)}
    while True:  # others may fall below the least width as narrow ones are widened
        rest = sum(time for i, time in enumerate(times) if i not in narrow)
        room = 1 - least * len(narrow)
        more = {i for i, time in enumerate(times) if i not in narrow and time * room < least * rest}
        if not more:
            break
        narrow |= more
    widths = [least if i in narrow else time * room / rest for i, time in enumerate(times)]
    edges = [sum(widths[:i]) / sum(widths) for i in range(len(widths) + 1)]
    return tuple(pairwise(edges))


def _places(problem: MultiProblem) -> tuple[tuple[float, float], ...]:
    """x and y of the chiplets, y downwards: their own where no two have the same, else on a circle."""
    chiplets = problem.instance.module.chiplets
    own = tuple((float(chiplet.x), float(chiplet.y)) for chiplet in chiplets)
    if len(set(own)) == len(own):
        return own
    angles = [2 * math.pi * c / len(chiplets) for c in range(len(chiplets))]
    radius = max(0.8, 1.1 * len(chiplets) / (2 * math.pi))
    return tuple((radius * math.sin(a), -radius * math.cos(a)) for a in angles)


def _title(figure: Figure, view: _View, solution: MultiSolution, bound: int | None) -> None:
    from matplotlib.patches import Patch

    instance = view.problem.instance
    certificate, units = check(instance, solution), family_of(instance).units_of(instance)
    energy = sum(all_energies(view.problem, view.windows).values())
    parts = standing(certificate.objective, bound, units.objective)
    parts += [f"latency T1 {in_unit(view.total, units.of('T1'), 5)}", f"energy T2 {in_unit(energy, units.of('T2'), 5)}"]
    parts += [f"EDP {view.total * energy / 1e21:.4g} J·s", f"minimised: {instance.task.objective}"]
    heading(figure, instance.name, parts, certificate, (0.07, 0.99))
    kinds = _kinds(view.problem)
    keys = [
        Patch(facecolor=light(_colour(m), 0.72), label=f"{model.name} ×{model.batch}")
        for m, model in enumerate(instance.models)
    ]
    keys += [Patch(facecolor="white", edgecolor=MUTED, hatch=hatch, label=kind) for kind, hatch in kinds.items()]
    keys += [
        Patch(facecolor=INK, alpha=0.55, label="reads weights"),
        Patch(facecolor=light(_colour(0), 0.22), label="pale: waits"),
    ]
    keys += [
        Patch(
            facecolor="white", edgecolor=RED, linewidth=2.0, label="slowest segment of the model that fills the window"
        )
    ]
    corner = 0.063, 1 - 0.57 / figure.get_figheight()
    figure.legend(handles=keys, loc="upper left", bbox_to_anchor=corner, ncols=ROW_OF_KEYS,
                  borderaxespad=0.0, handlelength=1.3, columnspacing=1.3)  # fmt: skip


def _kinds(problem: MultiProblem) -> dict[str, str]:
    kinds = sorted({chiplet.kind for chiplet in problem.instance.module.chiplets})
    return {kind: HATCHES[i % len(HATCHES)] for i, kind in enumerate(kinds)}


def _colour(model: int) -> str:
    return MODELS[model % len(MODELS)]


def _chart(axes: Axes, view: _View) -> None:
    """Chiplets over time."""
    problem, chiplets = view.problem, view.problem.instance.module.chiplets
    for window in view.windows:
        left, right = view.ends[window.number]
        if window.number:
            axes.axvline(left, color=INK, linewidth=0.9, zorder=1)
        part = share(window.time, max(1, view.total))
        short = f"window {window.number}: {duration(window.time, 4)}"
        longer = f"{short} ({part} of T1)"
        texts = f"{longer}, set by {_setter(problem, window)}", longer, short
        text = next((text for text in texts if 8 * LETTER * len(text) < right - left), f"{duration(window.time, 4)}")
        axes.text((left + right) / 2, -0.75, text, ha="center", va="bottom", fontsize=8)
        for one in window.ranges:
            for span in one.spans:
                _bar(axes, view, window, one, span)
    marks = [mark for window in view.windows for mark in _marks(view, window)]
    axes.set_xticks([x for x, _ in marks], [text for _, text in marks], fontsize=8)
    axes.set_yticks(range(len(chiplets)), [f"{chiplet.name} {chiplet.kind}" for chiplet in chiplets],
                    fontsize=8 if len(chiplets) <= LARGE else 6.5)  # fmt: skip
    axes.set_xlim(-0.002, 1.002)
    axes.set_ylim(len(chiplets) - 0.4, -0.65)
    axes.tick_params(length=0)
    axes.grid(axis="y")


def _marks(view: _View, window: TimelineWindow) -> list[tuple[float, str]]:
    """Times written below a window: its start and end, and round times between them where there is room."""
    left, right = view.ends[window.number]
    end = window.start + window.time
    ends = [(left, duration(window.start, 4))] + ([(right, duration(end, 4))] if window is view.windows[-1] else [])
    room = int((right - left) / 0.1)
    if room < 2:
        return ends
    between = round_times(window.start, end, room)
    clear = [time for time in between if min(view.at(window, time) - left, right - view.at(window, time)) > 0.05]
    return [*ends, *((view.at(window, time), duration(time, 4)) for time in clear)]


def _setter(problem: MultiProblem, window: TimelineWindow) -> str:
    """The model and layers that set the window's length."""
    m, first, last, _ = window.slowest.slowest.segment
    return f"{problem.instance.models[m].name} {_layers(first, last)}"


def _layers(first: int, last: int) -> str:
    return f"{first}–{last}" if last > first else f"{first}"


def _frame(window: TimelineWindow, one: Range, span: Span) -> dict[str, Any]:
    """The outline of a segment: red where it sets the window's length, black for others of that model."""
    if one is not window.slowest:
        return {"edgecolor": "white", "linewidth": 0.8}
    if span is one.slowest:
        return {"edgecolor": RED, "linewidth": 2.0, "zorder": 4}
    return {"edgecolor": INK, "linewidth": 1.1, "zorder": 3}


def _bar(axes: Axes, view: _View, window: TimelineWindow, one: Range, span: Span) -> None:
    from matplotlib.patches import Rectangle

    m, first, last, c = span.segment
    left, begins, right = (view.at(window, time) for time in (span.start, span.begins, span.end))
    filled = span.time / span.every if span.every else 1.0
    colour, pause = _colour(m), span.start + span.weights
    axes.add_patch(Rectangle((left, c - 0.4), right - left, 0.8, facecolor=light(colour, 0.22), linewidth=0))
    axes.add_patch(
        Rectangle((left, c - 0.4), view.at(window, pause) - left, 0.8, facecolor=INK, alpha=0.55, linewidth=0)
    )
    axes.add_patch(Rectangle((begins, c + 0.4 - 0.8 * filled), right - begins, 0.8 * filled,
                             facecolor=light(colour, 0.72), linewidth=0))  # fmt: skip
    axes.add_patch(Rectangle((left, c - 0.4), right - left, 0.8, fill=False, **_frame(window, one, span)))
    told = f"{view.problem.models[m].name}, layers {_layers(first, last)}, {duration(span.time, 4)} × {span.count}"
    named(axes, left, c - 0.4, right - left, 0.8, told)
    text, few = f"{view.problem.models[m].name} {_layers(first, last)}", _layers(first, last)
    pace = f"{text}, {duration(span.time, 4)} × {span.count}" if span.count > 1 else f"{text}, {duration(span.time, 4)}"
    size = 7.5 if view.problem.chiplets <= LARGE else 6.5
    words = next((words for words in (pace, text, few) if size * LETTER * len(words) <= right - left), "")
    axes.text((left + right) / 2, c + 0.02, words, ha="center", va="center", fontsize=size, zorder=5)


def _map(axes: Axes, view: _View, window: TimelineWindow) -> None:
    """The module in one window."""
    from matplotlib.patches import FancyArrowPatch, Rectangle

    problem, half = view.problem, 0.38
    kinds, running = _kinds(problem), {span.segment[3]: (one, span) for one in window.ranges for span in one.spans}
    small = problem.chiplets > LARGE
    for a, near in enumerate(problem.neighbours):
        for b in (b for b in near if b > a):
            axes.plot(*zip(view.places[a], view.places[b], strict=True), color=RULE, linewidth=2.2, zorder=0)
    for c, (x, y) in enumerate(view.places):
        chiplet = problem.instance.module.chiplets[c]
        one, span = running.get(c, (None, None))
        frame: dict[str, Any] = {"linewidth": 0.8, "zorder": 2}
        face: Any = FREE
        if one is not None and span is not None:
            frame = {"zorder": 2, **_frame(window, one, span)}
            face = light(_colour(one.model), 0.6)
        axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, facecolor=face, linewidth=0, zorder=1,
                                 hatch=kinds[chiplet.kind], edgecolor=(0, 0, 0, 0.16)))  # fmt: skip
        outline = {**frame, "edgecolor": frame.get("edgecolor", RULE)}
        axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, **outline))
        if span is not None:
            layers = _layers(*span.segment[1:3])
            axes.text(x, y + 0.17, layers, ha="center", va="center", fontsize=6 if small else 8,
                      zorder=6)  # fmt: skip
        if not small:
            axes.text(x - half + 0.04, y - half + 0.05, chiplet.name, va="top", fontsize=6.5, zorder=6)
    for one in window.ranges:
        for before, after in pairwise(one.spans):
            ends = view.places[before.segment[3]], view.places[after.segment[3]]
            axes.add_patch(FancyArrowPatch(*_between(*ends, half), arrowstyle="-|>", mutation_scale=8 if small else 12,
                                           color=INK, linewidth=1.6, shrinkA=0, shrinkB=0,
                                           zorder=7))  # fmt: skip
    axes.set_title(f"window {window.number}: {duration(window.time, 4)}", fontsize=8.5)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.invert_yaxis()
    axes.axis("off")


def _energies(axes: Axes, view: _View) -> None:
    """What each model's energy is spent on."""
    from matplotlib.ticker import MaxNLocator

    models = view.problem.instance.models
    total = [dict.fromkeys(PARTS, 0) for _ in models]
    for one in (one for window in view.windows for one in window.ranges):
        for part, amount in energies(view.problem, one).items():
            total[one.model][part] += amount
    left = [0.0] * len(models)
    most = max(sum(own.values()) for own in total)
    scale, unit = next(
        ((s, n) for s, n in ((1e12, "J"), (1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ")) if most >= s), (1.0, "pJ")
    )
    for part, colour in zip(PARTS, SPENT, strict=True):
        widths = [own[part] / scale for own in total]
        axes.barh(range(len(models)), widths, 0.6, left=left, color=colour, label=part)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_ylim(max(len(models), 4) - 0.4, -0.6)
    axes.set_yticks(range(len(models)), [model.name for model in models], fontsize=8)
    whole = "without static energy, " if view.problem.power else ""
    axes.set_title(f"energy T2 by model, {whole}{unit}", fontsize=8.5)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(length=0, labelsize=8)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.12), ncols=2, fontsize=8)
    box = axes.get_position()
    axes.set_position((box.x0 + 0.12, box.y0 + 0.3 * box.height, box.width - 0.14, 0.65 * box.height))


def _between(a: tuple[float, float], b: tuple[float, float], half: float) -> tuple[tuple[float, float], ...]:
    """The ends of an arrow from a square to another: a little inside both borders."""
    reach = max(abs(b[0] - a[0]), abs(b[1] - a[1]), 1e-9)
    inset = min(0.45, (half - 0.05) / reach)
    return tuple((p[0] + inset * (q[0] - p[0]), p[1] + inset * (q[1] - p[1])) for p, q in ((a, b), (b, a)))
