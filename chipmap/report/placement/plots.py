"""A placement as one picture.

**Step time.** At the top the critical chain from 0 to T1: work in the colour of its device, transfers and waits. Below,
a row per device with its operations, coloured by kind, and a row per channel with its transfers (where there are many
channels, a row for all that leaves a device). What is on the critical chain is underlined in red, and red lines join
the rows where the chain goes from one to the other. At the bottom the bytes that each device holds over time, by the
checker's own account, with its limit and what is largest at the peak.

**Throughput.** What each device computes and transfers per sample, and the bytes that it holds.

What the checker refuses is drawn as it is, and said.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.family import family_of
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import Piece, Timeline, timeline
from chipmap.records import counted
from chipmap.records.quantities import duration, share, size
from chipmap.report.canvas import COLOURS, MUTED, RED, RULE, named, picture, standing
from chipmap.report.gantt import bars, heading, light, round_times
from chipmap.report.placement.loads import draw as draw_loads
from chipmap.validation.placement.checker import check
from chipmap.validation.placement.facts import facts_of
from chipmap.validation.placement.memory import Placed, curve, held

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches from left to right, of a row of a device and of a channel, and of a curve of memory.
WIDTH, DEVICE, CHANNEL, CURVE = 13.0, 0.42, 0.2, 0.6
#: Most rows of channels one by one; with more there is a row for all that leaves a device.
MOST_CHANNELS = 12
#: Kinds of operations with a colour of their own, by their time; names that are written into bars at most.
KINDS, NAMED = 7, 300
#: The longest name of an operation that is written out, and what a letter takes of the width.
LETTERS, LETTER = 28, 0.0062
#: Transfers are drawn at least so long, as a part of the step, that they are seen.
SEEN = 1500
#: Joins between rows up to which the chain is drawn as a line.
JOINS = 400
#: Shares of the height of a row: of the bar, and of the red line below it.
BAR, LINE = 0.72, 0.09
GREY, SENT = "#aab4be", "#334e68"
#: How parts of the critical chain look that are no computing; waits are hatched, so that no two greys are alike.
CHAIN: dict[str, dict[str, Any]] = {
    "transfer": {"facecolor": SENT},
    "rest": {"facecolor": GREY},
    "wait": {"facecolor": "white", "hatch": "//////", "edgecolor": "#8b97a3", "linewidth": 0.3},
}
PALETTE = (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[3], COLOURS[4], COLOURS[6], "#7d5ba6")
#: Colours of devices on the chain; more devices repeat them.
DEVICES = (*COLOURS[:5], "#8c8c00", "#7d5ba6", "#8a5a44")


def plot(instance: PlacementInstance, solution: PlacementSolution, path: str | Path, bound: int | None = None) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF by its suffix), with ``bound`` (ticks) and gap in its title.

    Raises :class:`InputError` for another suffix, for a placement of something else, and where the file can't be
    written.
    """
    problem = placement_problem(instance)
    if not problem.timed:
        draw_loads(instance, solution, Path(path), bound)
        return
    line = timeline(problem, solution)
    rows, devices = _channel_rows(line), problem.devices
    chart = 0.5 + DEVICE * devices + CHANNEL * len(rows)
    heights = [0.42, chart, max(1.2, CURVE * devices)]
    top = 0.95
    with picture(path, (WIDTH, top + sum(heights) + 1.1)) as figure:
        tall = figure.get_figheight()
        grid = figure.add_gridspec(3, 1, height_ratios=heights, hspace=0.42 / (sum(heights) / 3), left=0.085,
                                   right=0.985, top=1 - top / tall, bottom=0.5 / tall)  # fmt: skip
        _title(figure, (instance, solution), line, bound)
        _chain(figure.add_subplot(grid[0]), line)
        _gantt(figure.add_subplot(grid[1]), line, rows)
        _memory(figure, grid[2], line, Placed(facts_of(instance), solution))


def _title(
    figure: Figure, drawn: tuple[PlacementInstance, PlacementSolution], line: Timeline, bound: int | None
) -> None:
    instance, certificate = drawn[0], check(*drawn)
    busy = sum(line.busy) / (max(1, line.total) * line.problem.devices)
    parts = [
        *standing(line.total, bound, family_of(instance).units_of(instance).objective),
        f"{counted(len(line.start), 'operation')} on {counted(line.problem.devices, 'device')}",
    ]
    parts.append(f"{len(line.moves):,} transfer{'s' if len(line.moves) != 1 else ''}")
    parts.append(f"devices compute {share(busy)} of the time")
    heading(figure, instance.name, parts, certificate, (0.085, 0.985))


def _axis(axes: Axes, line: Timeline, labels: bool = True) -> None:
    """Time from 0 to T1 with round marks."""
    marks = round_times(0, line.total, 12)
    near = [mark for mark in marks if line.total - mark > 0.035 * line.total]
    axes.set_xlim(-0.002 * line.total, 1.002 * max(1, line.total))
    texts = [duration(mark, 4) if mark else "0" for mark in (0, *near, line.total)] if labels else []
    axes.set_xticks([0, *near, line.total], texts or [""] * (len(near) + 2), fontsize=8)
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)


def _chain(axes: Axes, line: Timeline) -> None:
    """The critical chain in a row."""
    for kind, look in CHAIN.items():
        bars(axes, [(p.start, p.time) for p in line.chain if p.kind == kind], 0.0, 1.0, **look)
    for d in range(line.problem.devices):
        work = [(p.start, p.time) for p in line.chain if p.kind == "compute" and line.device[p.operation] == d]
        bars(axes, work, 0.0, 1.0, facecolor=DEVICES[d % len(DEVICES)])
    _axis(axes, line, labels=False)
    axes.set_ylim(1.0, 0.0)
    axes.set_yticks([0.5], ["critical chain"], fontsize=8)
    sums = {kind: sum(p.time for p in line.chain if p.kind == kind) for kind in ("compute", "transfer", "rest", "wait")}
    words = {"compute": "computing", "transfer": "transfers", "rest": "rests", "wait": "waits"}
    text = ", ".join(
        f"{words[kind]} {duration(ns, 4)} ({share(ns, max(1, line.total))})" for kind, ns in sums.items() if ns
    )
    keys = [({"facecolor": DEVICES[d % len(DEVICES)]}, name) for d, name in enumerate(line.problem.device_names)]
    _legend(axes, [*keys, *((look, kind) for kind, look in CHAIN.items() if sums[kind])])
    axes.set_title(f"critical chain: {text}", fontsize=8.5, fontweight="normal")


def _legend(axes: Axes, keys: Iterable[tuple[dict[str, Any], str]]) -> None:
    """Looks and what they stand for, above the right end."""
    from matplotlib.patches import Patch

    patches = [Patch(label=name, **{"linewidth": 0, **look}) for look, name in keys]
    axes.legend(handles=patches, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(patches),
                borderaxespad=0.2, handlelength=0.9, handleheight=0.8, columnspacing=1.0, fontsize=7.5)  # fmt: skip


def _channel_rows(line: Timeline) -> dict[str, list[int]]:
    """Transfers by row: of each used channel, or of each device that sends where these are many or there is none."""
    devices = line.problem.device_names
    if len(line.channels) <= MOST_CHANNELS and all(move.channels for move in line.moves):
        return {line.channel_names[c]: moves for c, moves in line.channels.items()}
    found: dict[int, list[int]] = {}
    for i, move in enumerate(line.moves):
        found.setdefault(move.source, []).append(i)
    return {f"out of {devices[a]}": found[a] for a in sorted(found)}


def _kinds(line: Timeline) -> tuple[list[str], dict[str, str]]:
    """The kind of each operation, and the colours of those that take most time."""
    operations, spent = line.problem.instance.graph.operations, dict[str, int]()
    kind_of = [operations[v].kind for v in line.problem.position.tolist()]
    for v, kind in enumerate(kind_of):
        spent[kind] = spent.get(kind, 0) + line.end[v] - line.start[v]
    ordered = sorted(spent, key=lambda kind: (-spent[kind], kind))
    return kind_of, dict(zip(ordered[:KINDS], PALETTE, strict=False))


def _gantt(axes: Axes, line: Timeline, rows: dict[str, list[int]]) -> None:
    """Devices and channels over time."""
    (kind_of, kinds), place = _kinds(line), 0.0
    at_device: list[float] = []
    device_names, written = line.problem.device_names, 0
    for queue in line.queues:
        by_colour: dict[str, list[int]] = {}
        for v in queue:
            by_colour.setdefault(kinds.get(kind_of[v], GREY), []).append(v)
        for own, members in by_colour.items():
            spans = [(line.start[v], line.end[v] - line.start[v]) for v in members]
            edge = {"edgecolor": "white", "linewidth": 0.6} if len(line.start) <= 300 else {}
            bars(axes, spans, place, BAR, facecolor=light(own, 0.75), **edge)
        for v in queue:
            written += _name(axes, line, v, place + BAR / 2) if written < NAMED else 0
            told = f"{line.problem.names[v]}, {kind_of[v]}, {device_names[line.device[v]]}, {_when(line, v)}"
            named(axes, line.start[v], place, line.end[v] - line.start[v], BAR, told)
        at_device.append(place)
        place += 1.0
    share = CHANNEL / DEVICE
    at_move: dict[int, float] = {}
    for moves in rows.values():
        seen = line.total / SEEN
        sent = [(line.moves[i].start, max(seen, line.moves[i].end - line.moves[i].start)) for i in moves]
        bars(axes, sent, place, BAR * share, facecolor=SENT)
        for i in moves:
            one = line.moves[i]
            told = f"transfer of {line.name(one)}, {duration(one.end - one.start, 4)}"
            named(axes, one.start, place, one.end - one.start, BAR * share, told)
        at_move |= {i: place for i in moves if i not in at_move}
        place += share
    _critical(axes, line, at_device, at_move, share)
    ticks = [at + BAR / 2 for at in at_device] + [at_device[-1] + 1 + share * (i + BAR / 2) for i in range(len(rows))]
    devices = [f"{one.name}" for one in line.problem.instance.system.devices]
    axes.set_yticks(ticks, [*devices, *rows], fontsize=8)
    for label in axes.get_yticklabels()[len(devices) :]:
        label.set_fontsize(6.5)
    axes.set_ylim(place + 0.05, -0.12)
    _axis(axes, line)
    keys = [({"facecolor": light(own, 0.75)}, kind) for kind, own in kinds.items()]
    others = len({one.kind for one in line.problem.instance.graph.operations if one.role != "input"}) > len(kinds)
    keys += [({"facecolor": light(GREY, 0.75)}, "other")] if others else []
    _legend(axes, [*keys, ({"facecolor": SENT}, "transfer"), ({"facecolor": RED}, "critical")])
    axes.set_title("operations and transfers", fontsize=8.5, fontweight="normal")


def _when(line: Timeline, v: int) -> str:
    return f"{duration(line.end[v] - line.start[v], 4)} from {duration(line.start[v], 4)}"


def _name(axes: Axes, line: Timeline, v: int, y: float) -> bool:
    """Write the name of an operation, or its last part, where its bar is long enough; whether it was."""
    whole, length = line.problem.names[v][:LETTERS], (line.end[v] - line.start[v]) / max(1, line.total)
    fits = [name for name in (whole, whole.rpartition(".")[2], whole.rpartition("/")[2]) if LETTER * len(name) < length]
    if fits and fits[0]:
        axes.text((line.start[v] + line.end[v]) / 2, y, fits[0], ha="center", va="center", fontsize=7, clip_on=True)
    return bool(fits)


def _critical(axes: Axes, line: Timeline, at_device: list[float], at_move: dict[int, float], share: float) -> None:
    """Red lines below what is on the chain, and between its rows."""

    def row(piece: Piece) -> tuple[float, float] | None:
        if piece.kind == "compute":
            return at_device[line.device[piece.operation]], 1.0
        return (at_move[piece.move], share) if piece.kind == "transfer" else None

    marked: dict[tuple[float, float], list[tuple[float, float]]] = {}
    joins: list[tuple[int, float, float]] = []
    last: tuple[float, float] | None = None
    for piece in line.chain:
        here = row(piece)
        if here is None:
            continue
        marked.setdefault(here, []).append((piece.start, piece.time))
        if last is not None and last != here:
            ends = [low + (BAR + LINE / 2) * high for low, high in (last, here)]
            joins.append((piece.start, ends[0], ends[1]))
        last = here
    for (low, high), spans in marked.items():
        bars(axes, spans, low + BAR * high, LINE * (1.0 if high == 1.0 else 1.4 * high), facecolor=RED)
    if len(joins) <= JOINS:
        xs, lows, highs = zip(*joins, strict=True) if joins else ((), (), ())
        axes.vlines(xs, lows, highs, color=RED, linewidth=0.5, alpha=0.6 if len(joins) <= 60 else 0.25)


def _memory(figure: Figure, place: Any, line: Timeline, placed: Placed) -> None:
    """A curve per device: the bytes that it holds, its limit, and the largest storages at the peak."""
    names = line.problem.device_names
    grid = place.subgridspec(len(names), 1, hspace=0.12)
    there = held(placed)
    for d, name in enumerate(names):
        axes = figure.add_subplot(grid[d])
        steps, peak = curve(there[name]), placed.peaks[name]
        xs, ys = [time for time, _ in steps] + [line.total], [size for _, size in steps] + [steps[-1][1]]
        colour = DEVICES[d % len(DEVICES)]
        axes.fill_between(xs, ys, step="post", facecolor=light(colour, 0.35), linewidth=0)
        axes.step(xs, ys, where="post", color=colour, linewidth=0.8)
        limit = placed.facts.devices[name].memory_bytes
        high = max(1, peak.bytes)
        if limit is not None and limit <= 1.5 * high:
            axes.axhline(limit, color=RED, linewidth=1.0, linestyle=(0, (4, 3)))
            high = max(high, limit)
        of = f" of {size(limit)}" if limit is not None else ""
        text = f"peak {size(peak.bytes)}{of} at {duration(peak.at, 4)}"
        if peak.largest:
            most = ", ".join(f"{one.name[:44]} {size(one.bytes)}" for one in peak.largest)
            text += f": {most}"
        axes.text(0.998, 0.99, text, transform=axes.transAxes, ha="right", va="top", fontsize=6.5, color=MUTED)
        _axis(axes, line, labels=d == len(names) - 1)
        axes.set_ylim(0, 1.45 * high)  # the words stand above the curve
        axes.set_yticks([0.5 * high, high], [name, size(high)], fontsize=8)
        axes.get_yticklabels()[1].set_fontsize(6.5)
        axes.spines["bottom"].set_color(RULE)
        if d == 0:
            rule = line.problem.instance.task.memory
            words = {"none": "not limited (rule none)", "static": "rule static", "live": "rule live"}[rule]
            axes.set_title(
                f"memory, {words}; each device to a scale of its own",
                fontsize=8.5,
                fontweight="normal",
                color=MUTED,
            )
