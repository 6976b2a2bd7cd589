"""A placement of objective ``throughput`` as one picture: what each device computes, transfers and holds per sample."""

from __future__ import annotations

from pathlib import Path

from chipmap.family import family_of
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.loads import loads
from chipmap.instances.placement.problem import placement_problem
from chipmap.records import counted
from chipmap.records.quantities import duration, size, size_unit, time_unit
from chipmap.report.canvas import COLOURS, MUTED, RED, picture, standing
from chipmap.report.gantt import heading
from chipmap.validation.placement.checker import check
from chipmap.validation.placement.facts import facts_of
from chipmap.validation.placement.memory import Placed

#: Inches from left to right, and of a row.
WIDTH, ROW = 11.0, 0.36
COMPUTE, TRANSFER, HELD = COLOURS[0], COLOURS[1], COLOURS[2]


def draw(instance: PlacementInstance, solution: PlacementSolution, path: Path, bound: int | None = None) -> None:
    """Draw ``solution`` to ``path``, with ``bound`` (ticks) and gap in the title.

    Raises :class:`InputError` for an unknown suffix and for a placement of something else.
    """
    problem = placement_problem(instance)
    found, certificate = loads(problem, solution), check(instance, solution)
    peaks = Placed(facts_of(instance), solution).peaks
    names, rows = problem.device_names, range(problem.devices)
    most = max(one.total for one in found)
    with picture(path, (WIDTH, 1.75 + ROW * len(names))) as figure:
        height = figure.get_figheight()
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.2, 1),
                                      gridspec_kw={"left": 0.085, "right": 0.985, "top": 1 - 1.2 / height,
                                                   "bottom": 0.45 / height, "wspace": 0.08})  # fmt: skip
        parts = [
            *standing(most, bound, family_of(instance).units_of(instance).objective),
            f"{counted(problem.operations, 'operation')} on {counted(len(names), 'device')}",
        ]
        heading(figure, instance.name, parts, certificate, (0.085, 0.985))
        scale, unit = time_unit(most)
        work, sent, pace = [one.work / scale for one in found], [one.sent / scale for one in found], most / scale
        overlap = instance.task.overlap
        if overlap:
            left.barh([row - 0.19 for row in rows], work, 0.36, color=COMPUTE, label="computing")
            left.barh([row + 0.19 for row in rows], sent, 0.36, color=TRANSFER, label="transfers (at the same time)")
        else:
            left.barh(rows, work, 0.66, color=COMPUTE, label="computing")
            left.barh(rows, sent, 0.66, left=work, color=TRANSFER, label="transfers")
        left.axvline(pace, color=RED, linewidth=1.0, label="T2")
        for row, one in enumerate(found):
            words = f"{counted(one.operations, 'operation')}, {duration(one.total, 4)}" if one.operations else "nothing"
            left.text(pace * 1.01, row, words, va="center", fontsize=7.5, color=MUTED)
        left.set_xlim(0, pace * 1.26)
        left.set_yticks(rows, [f"{one.name} ({one.kind})" for one in instance.system.devices], fontsize=8)
        left.set_ylim(len(names) - 0.45, -0.55)
        left.set_title(f"load, {unit} per sample", fontsize=8.5, fontweight="normal")
        left.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=7.5, borderaxespad=0.2)
        top = max(peak.bytes for peak in peaks.values())
        each, called = size_unit(top)
        sizes = [peaks[name].bytes / each for name in names]
        limits = [one.memory_bytes for one in instance.system.devices]
        right.barh(rows, sizes, 0.66, color=HELD)
        for row, limit in enumerate(limits):
            if limit is not None and limit <= 1.5 * top:
                right.plot([limit / each] * 2, [row - 0.4, row + 0.4], color=RED, linewidth=1.2)
            of = "" if limit is None else f" of {size(limit)}"
            words = f"{size(peaks[names[row]].bytes)}{of}"
            right.text(max(1, top) / each * 1.53, row, words, va="center", fontsize=7.5, color=MUTED)
        right.set_xlim(0, max(1, top) / each * 2.4)
        right.set_title(f"memory held, {called}", fontsize=8.5, fontweight="normal")
        for axes in (left, right):
            axes.tick_params(length=0, labelsize=8)
            axes.grid(axis="x")
