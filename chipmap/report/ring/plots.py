"""A ring mapping as one picture: chips × operations, time and memory per chip, and the quotient graph.

Symbols are those of ``docs/families/ring.md``. The picture also shows what is wrong with a mapping that the checker
refuses: chips above their SRAM, flows to an earlier chip (C1) and flows beside a longer way (C3) are red.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chipmap.family import family_of
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.loads import Loads, loads, terms
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.records import InputError, counted
from chipmap.records.quantities import number
from chipmap.report.canvas import COLOURS, INK, MUTED, RED, RULE, named, picture, rectangles, standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

US_PER_TICK = 1e-5
MIB = 1024.0**2

LINK, SKIP, WEIGHTS, BOUNDARY = "#39424e", "#d9730d", "#5b7a99", "#b9c9d8"
#: Kinds of operations by share of the work, then the rest.
KINDS = COLOURS[:6]
OTHER = "#a3acb5"


@dataclass(frozen=True, eq=False)
class _View:
    """What the panels draw: the problem, the mapping, its loads, the kinds of operations by name, the number of each
    operation's kind (the last number is the rest), and the colours of the numbers."""

    problem: RingProblem
    chips: NDArray[np.int64]
    on: Loads
    period: int
    bound: int | None
    kinds: tuple[str, ...]
    kind_of: NDArray[np.int64]
    colours: tuple[str, ...]


def plot(instance: RingInstance, solution: RingSolution, path: str | Path, bound: int | None = None) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF by its suffix), with ``bound`` (ticks) and gap in its title.

    Raises :class:`InputError` for another suffix, for a mapping that doesn't fit the instance, and where the file
    can't be written.
    """
    view = _view(instance, solution, bound)
    width = min(24.0, max(12.0, 4.0 + 0.28 * view.problem.chips))
    with picture(path, (width, 13.0), tight=False, dpi=150) as figure:
        _draw(figure, view)


def _view(instance: RingInstance, solution: RingSolution, bound: int | None = None) -> _View:
    problem = ring_problem(instance)
    if len(solution.chips) != problem.n:
        what = f"has {counted(len(solution.chips), 'entry', 'entries')} for {counted(problem.n, 'operation')}"
        raise InputError(what, "solution.chips", "Plot a solution of this very instance.")
    if any(not 0 <= chip < problem.chips for chip in solution.chips):
        raise InputError("names a chip that doesn't exist", "solution.chips", f"Chips: 0 to {problem.chips - 1}.")
    chips = np.array(solution.chips, dtype=np.int64)
    names = [operation.kind for operation in instance.graph.operations]
    work: dict[str, int] = defaultdict(int)
    for v in np.flatnonzero(problem.computing).tolist():
        work[names[v]] += int(problem.ticks[v])
    kinds = tuple(sorted(work, key=lambda kind: (-work[kind], kind))[: len(KINDS)])
    kind_of = np.array([kinds.index(name) if name in kinds else len(kinds) for name in names], dtype=np.int64)
    colours = (*KINDS[: len(kinds)], OTHER)
    return _View(problem, chips, loads(problem, chips), max(terms(problem, chips)), bound, kinds, kind_of, colours)


def _draw(figure: Figure, view: _View) -> None:
    left, right = 0.9 / figure.get_figwidth(), 1 - 1.2 / figure.get_figwidth()
    grid = figure.add_gridspec(
        4, 1, height_ratios=(4.6, 3.0, 2.0, 1.7), hspace=0.36, left=left, right=right, top=0.915, bottom=0.035
    )
    mapping, time, memory, quotient = (figure.add_subplot(grid[i]) for i in range(4))
    _title(figure, left, view)
    _mapping(mapping, view)
    _time(time, view)
    _memory(memory, view)
    _quotient(quotient, view)
    for ax in (time, memory, quotient):
        ax.set_xlim(-0.7, view.problem.chips - 0.3)


def _title(figure: Figure, left: float, view: _View) -> None:
    problem = view.problem
    t1, t2 = terms(problem, view.chips)
    slowest = f"slowest chip {_us(t1)}, slowest link {_us(t2)}"
    known = standing(view.period, view.bound, family_of(problem.instance).units_of(problem.instance).objective)
    parts = (
        slowest if problem.cost_mode == "period" else f"cost mode {problem.cost_mode}",
        f"{len(set(view.chips[problem.computing].tolist()))} of {counted(problem.chips, 'chip')} used",
        f"{int(problem.computing.sum()):,} computing of {counted(problem.n, 'operation')}",
    )
    figure.text(left, 0.977, problem.instance.name, fontsize=16, fontweight="bold", va="center")
    figure.text(left, 0.957, "  ·  ".join(known), fontsize=10, va="center")
    figure.text(left, 0.941, "  ·  ".join(parts), fontsize=9, color=MUTED, va="center")


def _mapping(ax: Axes, view: _View) -> None:
    """Every computing operation as a bar one position wide, in the row of its chip."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    problem = view.problem
    order = np.array([v for v in problem.order if problem.computing[v]], dtype=np.int64)
    x, y = np.arange(len(order), dtype=float), view.chips[order].astype(float)
    thin = max(1.0, len(order) / 900)  # never below about two pixels
    kinds = view.kind_of[order]
    for kind in sorted(set(kinds.tolist())):
        own = kinds == kind
        rectangles(ax, [(i, c - 0.44, thin, 0.88) for i, c in zip(x[own], y[own], strict=True)], view.colours[kind])
    for i, v in enumerate(order.tolist()):
        operation = problem.instance.graph.operations[v]
        told = f"{operation.name}, {operation.kind}, chip {view.chips[v]}, {_us(int(problem.ticks[v]))}"
        named(ax, i, y[i] - 0.44, 1, 0.88, told)
    ax.set_xlim(-0.01 * max(1, len(order)), 1.01 * max(1, len(order)))
    ax.set_ylim(problem.chips - 0.3, -0.7)
    ax.set_yticks(_ticks(problem.chips))
    ax.tick_params(axis="y", labelsize=7.5)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.set_ylabel("chip")
    ax.set_xlabel("computing operations in topological order")
    ax.set_title("Mapping")
    ax.grid(axis="y")
    ax.tick_params(length=0)
    drawn = set(view.kind_of[order].tolist())
    names = zip(view.colours, (*view.kinds, "other kinds"), strict=True)
    handles = [Patch(color=colour, label=name) for i, (colour, name) in enumerate(names) if i in drawn]
    ax.legend(handles=handles, loc="upper right", title="kind, by share of the work", alignment="left", frameon=True,
              facecolor="white", edgecolor="none", framealpha=0.85)  # fmt: skip


def _time(ax: Axes, view: _View) -> None:
    """Work of each chip by kind, what its cost mode adds, and the load of each link between its two chips."""
    problem, on = view.problem, view.on
    at, base = np.arange(problem.chips), np.zeros(problem.chips)
    for kind, colour in enumerate(view.colours):
        work = np.zeros(problem.chips)
        chosen = view.kind_of == kind
        np.add.at(work, view.chips[chosen], problem.ticks[chosen] * US_PER_TICK)
        ax.bar(at, work, 0.62, bottom=base, color=colour)
        base = base + work
    if problem.cost_mode == "period":
        if on.load.any():
            ax.bar(at[:-1] + 0.5, on.load[:-1] * US_PER_TICK, 0.2, color=LINK, label="link to the next chip")
    else:
        for label, ticks, hatch in _charged(view):
            ax.bar(at, ticks * US_PER_TICK, 0.62, bottom=base, color="white", ec=LINK, lw=0.6, hatch=hatch, label=label)
            base = base + ticks * US_PER_TICK
    average = problem.total_ticks / problem.chips
    _level(ax, view.period * US_PER_TICK, f"period\n{_us(view.period)}", INK, "-")
    apart = average < 0.93 * view.period or view.period == 0
    _level(ax, average * US_PER_TICK, f"work / {problem.chips}\n{_us(average)}" if apart else "", MUTED, ":")
    ax.set_ylim(0, max(1.12 * view.period * US_PER_TICK, 1e-9))
    ax.set_ylabel("µs per sample")
    share = f"period = {view.period / average:.4g} × the average work of a chip" if average else ""
    title = "Time per chip and link" if problem.cost_mode == "period" else "Time per chip"
    _finish(ax, problem.chips, title, share)


def _charged(view: _View) -> list[tuple[str, NDArray[np.int64], str]]:
    """What ``sum`` and ``sum_forward`` add to a chip's work: (name, ticks per chip, hatch)."""
    on = view.on
    if view.problem.cost_mode == "sum":
        return [("received", on.received, "////"), ("sent", on.sent, "\\\\\\\\")]
    before = np.concatenate(([0], on.load[:-1]))
    return [("link before", before, "////"), ("link after", on.load, "\\\\\\\\")]


def _memory(ax: Axes, view: _View) -> None:
    """What C4 counts on each chip, in the instance's grade, against its SRAM."""
    problem, on = view.problem, view.on
    at, weights, total = np.arange(problem.chips), on.weight_bytes / MIB, on.memory_bytes / MIB
    sram = problem.sram_bytes / MIB
    over = np.maximum(total - sram, 0.0)
    full = problem.instance.memory_grade == "full"
    tensors = "boundary, relayed and live tensors" if full else "boundary tensors, double-buffered"
    ax.bar(at, weights, 0.62, color=WEIGHTS, label="weights")
    ax.bar(at, total - weights, 0.62, bottom=weights, color=BOUNDARY, label=tensors)
    if over.any():
        ax.bar(at, over, 0.62, bottom=total - over, color=RED, alpha=0.75, label="above the SRAM")
    top = float(total.max(initial=0.0))
    if sram <= 2.5 * top:
        _level(ax, sram, f"SRAM\n{number(sram)} MiB", RED if over.any() else INK, "-")
        top = max(top, sram)
    ax.set_ylim(0, max(1.15 * top, 1e-9))
    ax.set_ylabel("MiB")
    note = f"fullest chip: {float(total.max(initial=0.0)):,.1f} of {number(sram)} MiB SRAM"
    _finish(ax, problem.chips, "Memory per chip", note if problem.has("C4") else f"{note} (C4 not in force)")


def _quotient(ax: Axes, view: _View) -> None:
    """Chips in a row and the flows between them: the wider, the more bytes; those that skip chips arch over them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    problem = view.problem
    arcs = _arcs(view)
    wrong = _beside_a_longer_way(list(arcs), problem.chips)
    most = max(arcs.values(), default=1) or 1
    reach = max((abs(b - a) for a, b in arcs), default=1)
    drawn = set()
    for (a, b), size in sorted(arcs.items(), key=lambda item: abs(item[0][1] - item[0][0])):
        height = 0.0 if b == a + 1 else (1.35 if b > a else -1.35) * (0.35 + 0.65 * abs(b - a) / reach)
        colour = RED if (a, b) in wrong or b < a else LINK if b == a + 1 else SKIP
        drawn.add(colour)
        curve = Curve([(a, 0), (a, height), (b, height), (b, 0)], [Curve.MOVETO, *[Curve.CURVE4] * 3])
        line = 0.6 + min(3.4, 400 / len(arcs)) * (size / most) ** 0.5
        ax.add_patch(PathPatch(curve, fc="none", ec=colour, lw=line, alpha=0.9, capstyle="round"))
    used = np.bincount(view.chips[problem.computing], minlength=problem.chips) > 0
    marker = float(np.clip(5200 / problem.chips, 30, 240))
    at = np.arange(problem.chips)
    ax.scatter(at, 0 * at, s=marker, c=["white" if u else "#f4f6f8" for u in used], zorder=4, linewidths=1.0,
               edgecolors=[LINK if u else RULE for u in used])  # fmt: skip
    if problem.chips <= 60:
        for c in range(problem.chips):
            ax.text(c, 0, str(c), ha="center", va="center", fontsize=7, color=INK if used[c] else MUTED, zorder=5)
    skips = sum(b > a + 1 for a, b in arcs)
    back = any(b < a for a, b in arcs)
    names = {"to the next chip": LINK, "skips chips": SKIP, "breaks C1 or C3": RED}
    handles = [Line2D([], [], color=colour, lw=2.5, label=name) for name, colour in names.items() if colour in drawn]
    flat = not {SKIP, RED} & drawn
    ax.set_ylim(-1.25 if back or flat else -0.35, 1.25)
    ax.set_yticks([])
    ax.set_xticks([])
    ax.spines[["left", "bottom"]].set_visible(False)
    note = f"{counted(len(arcs), 'flow')} between chips, {skips} past other chips; the wider, the more bytes"
    _titles(ax, "Quotient graph", note)
    if handles:
        ax.legend(handles=handles, loc="upper left", ncols=3, borderaxespad=0.0)


def _arcs(view: _View) -> dict[tuple[int, int], int]:
    """Bytes of the distinct storages made on chip a and read on chip b, for every such pair a ≠ b."""
    arcs: dict[tuple[int, int], int] = defaultdict(int)
    for storage in view.problem.storages:
        a = int(view.chips[storage.producer])
        for b in set(view.chips[list(storage.readers)].tolist()) - {a}:
            arcs[a, b] += storage.bytes
    return arcs


def _beside_a_longer_way(arcs: Sequence[tuple[int, int]], chips: int) -> set[tuple[int, int]]:
    """The arcs (a, b) for which C3 names a chip c: a reaches c and an arc leads from c to b."""
    import networkx as nx

    graph = nx.DiGraph(arcs)
    graph.add_nodes_from(range(chips))
    reached = {a: nx.descendants(graph, a) for a in graph}
    return {(a, b) for a, b in arcs if any(c not in (a, b) and c in reached[a] for c in graph.predecessors(b))}


def _titles(ax: Axes, title: str, note: str) -> None:
    ax.set_title(title)
    ax.set_title(note, loc="right", fontsize=8.5, fontweight="normal", color=MUTED)


def _finish(ax: Axes, chips: int, title: str, note: str) -> None:
    from matplotlib.ticker import StrMethodFormatter

    _titles(ax, title, note)
    ax.set_xticks(_ticks(chips))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    ax.set_xlabel("chip", labelpad=1)
    ax.tick_params(length=0)
    ax.grid(axis="y")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper left", ncols=3, borderaxespad=0.0, bbox_to_anchor=(0.0, 1.02))


def _level(ax: Axes, value: float, label: str, colour: str, style: str) -> None:
    """A horizontal line with its name to the right of the axes."""
    ax.axhline(value, color=colour, ls=style, lw=1.2, zorder=3)
    ax.annotate(
        label, (1.0, value), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
        va="center", fontsize=8.5, color=colour, annotation_clip=False,
    )  # fmt: skip


def _ticks(count: int) -> list[int]:
    """Tick positions 0, s, 2s, … below ``count``, at most about 40 of them."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if count <= 40 * s)
    return list(range(0, count, step))


def _us(ticks: float) -> str:
    return f"{number(ticks * US_PER_TICK)} µs"
