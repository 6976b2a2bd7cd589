"""A dataflow mapping as its latency breakdown: for each partition its compute, memory and network time.

Where the three overlap, they stand side by side and the longest counts; where the task says that they don't, they are
stacked and the sum counts. A line marks what counts: these add up to the layer's time.
Where a forward and a backward pass run at once, the lines are of a pass alone, and the legend says what sets the pace.
Forward and backward partitions are told apart by their place on the axis, stages of kernels by lines; what the checker
refuses is drawn as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.certificate import with_prediction
from chipmap.explaining.dataflow.spent import paced_by
from chipmap.family import family_of
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.predicting import predicted
from chipmap.records import InputError
from chipmap.records.quantities import size, time_unit
from chipmap.report.canvas import COLOURS, INK, RULE, named, picture, standing
from chipmap.report.dataflow.unequal_plot import draw
from chipmap.validation.dataflow.checker import breakdown, c0_domain, check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = ("compute", "memory", "network")
#: Partitions that get the names of their kernels written below them, and those that get one line, upwards.
NAMED, UPWARDS = 12, 60
#: Letters of a kernel's name and scheme that fit below a partition, and lines.
LETTERS, LINES = 18, 32


def plot(instance: DataflowInstance, solution: DataflowSolution, path: str | Path, bound: int | None = None) -> None:
    """Draw ``solution`` to ``path`` (PNG, SVG or PDF by its suffix), with ``bound`` (ticks) and gap in its title.

    Raises :class:`InputError` for another suffix, for a mapping that isn't one of the instance (C0), and where the
    file can't be written.
    """
    if instance.system.others:
        _unequal(instance, solution, path, bound)
        return
    for where, _, _, message in c0_domain(instance, solution):
        raise InputError(message, f"solution.{where}", "Plot a solution of this very instance.")
    with picture(path, (min(17.0, 4.5 + 1.15 * len(set(solution.partitions))), 5.2)) as figure:
        _draw(figure.subplots(), instance, solution, bound)


def _unequal(instance: DataflowInstance, solution: DataflowSolution, path: str | Path, bound: int | None) -> None:
    for one in check(instance, solution).violations:
        if one.label == "C0":
            raise InputError(one.message, f"solution.{one.where}", "Plot a solution of this very instance.")
    with picture(path, (min(17.0, 4.5 + 1.15 * len(solution.stage_groups)), 5.2)) as figure:
        draw(figure.subplots(), instance, solution, bound)


def _draw(axes: Axes, instance: DataflowInstance, solution: DataflowSolution, bound: int | None = None) -> None:
    from matplotlib.ticker import MaxNLocator

    parts = breakdown(instance, solution)
    overlap, launch = instance.task.overlap, instance.system.chip.launch_ns
    counts = [1000 * launch + (max(times) if overlap else sum(times)) for times in parts.values()]
    scale, unit = time_unit(max(counts) / 1000)
    scale *= 1000
    _bars(axes, [[time / scale for time in times] for times in parts.values()], overlap)
    places = range(len(parts))
    words = f"counts: {'the longest' if overlap else 'the sum'} of the three{' and the launch' if launch else ''}"
    words += _pace(instance, solution)
    ends = [x - 0.42 for x in places], [x + 0.42 for x in places]
    axes.hlines([count / scale for count in counts], *ends, color=INK, linewidth=1.8, label=words)
    top = 1.06 * max(counts) / scale or 1.0
    axes.set_ylim(0.0, top)
    if solution.stages:
        at = [solution.stages[p] for p in parts]
        for x in [x for x in places[1:] if at[x] > at[x - 1]]:
            axes.axvline(x - 0.5, color=RULE, linewidth=1.2, zorder=0)
    if len(parts) <= NAMED:
        names = ["\n".join(_few(own)) for own in _names(instance, solution)]
        axes.set_xticks(list(places), names, fontsize=7)
    elif len(parts) <= UPWARDS:
        lines = [_line(own) for own in _names(instance, solution)]
        axes.set_xticks(list(places), lines, fontsize=7, rotation=90)
    else:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    whole = instance.task.across_layers or instance.task.stages == "kernels"
    axes.set_ylabel(f"{unit} per pass" if whole else f"{unit} per layer and micro-batch")
    stages = ", lines between stages" if solution.stages else ""
    axes.set_xlabel(f"partitions in the order in which they run; kernel · scheme{stages}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for x, own in enumerate(_names(instance, solution)):
        for k, one in enumerate(own):
            named(axes, x - 0.45, top * k / len(own), 0.9, top / len(own), f"{one}, partition {list(parts)[x]}")
    _title(axes, instance, solution, bound)


def _pace(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """A line about pairs of passes, where they run so: there not all that a pass takes counts."""
    paced = paced_by(dataflow_problem(instance, solution.degrees, *solution.plan), solution)
    if paced is None:
        return ""
    scale, unit = time_unit(paced.apart / 1000)
    pair, apart = (ticks / 1000 / scale for ticks in (paced.pair, paced.apart))
    return f"\nin pairs the pace is set by {paced.name},\n{pair:.4g} {unit} of {apart:.4g} a layer"


def _title(axes: Axes, instance: DataflowInstance, solution: DataflowSolution, bound: int | None) -> None:
    """Objective, bound and gap; the figures of the certificate; how the batch and the tensors are divided."""
    certificate, degrees = check(instance, solution), solution.degrees
    certificate = with_prediction(certificate, instance, solution, predicted, check)
    figures, units = certificate.figures, family_of(instance).units_of(instance)
    told = certificate.told_in(units).prediction
    foretold = [f"predicted about {told.amount}"] if told else []
    shown = [certificate.headline, f"{100 * figures.get('utilisation', 0.0):.1f}% of the peak", f"mode {instance.mode}"]
    shown += [f"DRAM {size(figures['dram_bytes'])} of a chip"] if "dram_bytes" in figures else []
    ways = [
        f"{name} {count}" for name in ("tensor", "pipeline", "data", "expert") if (count := getattr(degrees, name)) > 1
    ]
    ways = [
        f"degrees: {', '.join(ways) or 'one chip'}",
        *([f"micro-batch {solution.micro_batch}"] if solution.micro_batch else []),
    ]
    lines = [
        instance.name + ("" if certificate.feasible else "   NOT VALID"),
        " · ".join([*standing(certificate.objective, bound, units.objective), *foretold]),
        " · ".join(one for one in (*shown, *ways) if one),
    ]
    axes.set_title("\n".join(lines), fontsize=9)


def _bars(axes: Axes, heights: list[list[float]], overlap: bool) -> None:
    """The parts that some partition has: side by side where they overlap, else one on the other."""
    shown = [k for k in range(len(PARTS)) if any(own[k] for own in heights)] or [0]
    below, width = [0.0] * len(heights), 0.78 / len(shown) if overlap else 0.7
    for rank, k in enumerate(shown):
        shift = (rank - (len(shown) - 1) / 2) * width if overlap else 0.0
        own = [parts[k] for parts in heights]
        axes.bar([x + shift for x in range(len(own))], own, width, bottom=below, color=COLOURS[k], label=PARTS[k])
        below = below if overlap else [a + b for a, b in zip(below, own, strict=True)]


def _names(instance: DataflowInstance, solution: DataflowSolution) -> list[list[str]]:
    """The kernels of each partition with their schemes, in the order of partitions."""
    kernels, found = instance.workload.kernels, dict[int, list[str]]()
    for i, partition in enumerate(solution.partitions):
        scheme = solution.schemes[i % len(solution.schemes)]
        kernel = kernels[i % len(kernels)].name
        found.setdefault(partition, []).append(kernel if scheme == "NONE" else f"{kernel} · {scheme}")
    return [found[p] for p in sorted(found)]


def _few(names: list[str]) -> list[str]:
    """At most so many lines with these names, cut where they are too long."""
    shown = [*names[: LINES - 1], f"and {len(names) - LINES + 1} more"] if len(names) > LINES else names
    return [_cut(name) for name in shown]


def _line(names: list[str]) -> str:
    """The first name, and how many more there are."""
    return _cut(names[0]) + (f" + {len(names) - 1}" if len(names) > 1 else "")


def _cut(name: str) -> str:
    """A name of at most :data:`LETTERS` letters, with its end, which tells it from its neighbours."""
    return name if len(name) <= LETTERS else f"{name[:5]}…{name[6 - LETTERS :]}"
