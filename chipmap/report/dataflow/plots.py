"""A dataflow mapping as its latency breakdown: for each partition its compute, memory and network time, stacked.

A line across each bar is the partition's time, whose sum is the layer's: the longest of the three, which overlap, or
all of them where the task says that they don't.
Forward and backward partitions are told apart by their place on the axis, stages of kernels by lines; what the checker
refuses is drawn as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.records import InputError
from chipmap.report.canvas import COLOURS, INK, RULE, picture
from chipmap.report.tables import number
from chipmap.validation.dataflow.checker import breakdown, c0_domain, check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = ("compute", "memory", "network")
#: Partitions that get the names of their kernels written below them.
NAMED = 12


def plot(instance: DataflowInstance, solution: DataflowSolution, path: str | Path) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF by its suffix).

    Raises :class:`InputError` for another suffix, for a mapping that isn't one of the instance (C0), and where the
    file can't be written.
    """
    for where, _, _, message in c0_domain(instance, solution):
        raise InputError(message, f"solution.{where}", "Plot a solution of this very instance.")
    with picture(path, (min(16.0, 4.5 + 0.9 * len(set(solution.partitions))), 5.2)) as figure:
        _draw(figure.subplots(), instance, solution)


def _draw(axes: Axes, instance: DataflowInstance, solution: DataflowSolution) -> None:
    parts = breakdown(instance, solution)
    places = range(len(parts))
    scale, unit = _unit(max(sum(times) for times in parts.values()))
    below = [0.0] * len(parts)
    for k, (name, colour) in enumerate(zip(PARTS, COLOURS, strict=False)):
        heights = [times[k] / scale for times in parts.values()]
        axes.bar(places, heights, bottom=below, width=0.7, color=colour, label=name)
        below = [a + b for a, b in zip(below, heights, strict=True)]
    overlap = instance.task.overlap
    longest = [(max(times) if overlap else sum(times)) / scale for times in parts.values()]
    words = f"time: {'the longest' if overlap else 'the sum'} of the three"
    ends = [x - 0.42 for x in places], [x + 0.42 for x in places]
    axes.hlines(longest, *ends, color=INK, linewidth=1.8, label=words)
    if solution.stages:
        at = [solution.stages[p] for p in parts]
        for x in [x for x in places[1:] if at[x] > at[x - 1]]:
            axes.axvline(x - 0.5, color=RULE, linewidth=1.2, zorder=0)
    if len(parts) <= NAMED:
        axes.set_xticks(list(places), _names(instance, solution), fontsize=7)
    whole = instance.task.across_layers or instance.task.stages == "kernels"
    axes.set_ylabel(f"{unit} per pass" if whole else f"{unit} per layer and micro-batch")
    axes.set_xlabel(f"partitions in the order in which they run{', lines between stages' if solution.stages else ''}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    certificate = check(instance, solution)
    batch = number((certificate.objective or 0) * 1e-12)
    share = f"{100 * certificate.figures.get('utilisation', 0.0):.1f}"
    title = f"{batch} s for the batch   {share}% of the peak   mode {instance.mode}"
    axes.set_title(f"{instance.name}\n{title}" + ("" if certificate.feasible else "   NOT VALID"))


def _unit(ticks: int) -> tuple[float, str]:
    """Picoseconds per unit, and the unit, so that ``ticks`` is a readable number."""
    for scale, unit in ((1e9, "ms"), (1e6, "µs")):
        if ticks >= scale:
            return scale, unit
    return 1e3, "ns"


def _names(instance: DataflowInstance, solution: DataflowSolution) -> list[str]:
    """The kernels of each partition, one per line, at most twelve of them."""
    kernels, found = instance.workload.kernels, dict[int, list[str]]()
    for i, partition in enumerate(solution.partitions):
        found.setdefault(partition, []).append(kernels[i % len(kernels)].name)
    few = {p: [*names[:11], f"and {len(names) - 11}"] if len(names) > 12 else names for p, names in found.items()}
    return ["\n".join(few[p]) for p in sorted(few)]
