"""Stages on groups of unequal chips as bars: what each takes for a micro-batch, by compute, memory and network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chipmap.family import family_of
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.records.quantities import time_unit
from chipmap.report.canvas import COLOURS, INK, standing
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.unequal import stage_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {"compute": "T1", "memory": "T2", "network": "T3"}


def draw(axes: Axes, instance: DataflowInstance, solution: DataflowSolution, bound: int | None) -> None:
    """Draw all stages of a mapping, in their order; a line marks what counts of each."""
    stages = solution.stage_groups
    terms = [check(*stage_of(instance, solution, s)).terms for s in range(len(stages))]
    counts = [stage.layers * one.get("T4", 0) for stage, one in zip(stages, terms, strict=True)]
    scale, unit = time_unit(max(counts) / 1000)
    scale *= 1000
    for k, (name, label) in enumerate(PARTS.items()):
        heights = [stage.layers * one.get(label, 0) / scale for stage, one in zip(stages, terms, strict=True)]
        axes.bar([x + (k - 1) * 0.26 for x in range(len(stages))], heights, 0.26, color=COLOURS[k], label=name)
    ends = [x - 0.42 for x in range(len(stages))], [x + 0.42 for x in range(len(stages))]
    axes.hlines([count / scale for count in counts], *ends, color=INK, linewidth=1.8, label="counts")
    names = [f"{one.group}\n{one.tensor} chips, {one.layers} layers" for one in stages]
    axes.set_xticks(range(len(stages)), names, fontsize=7)
    axes.set_ylabel(f"{unit} per micro-batch")
    axes.set_xlabel("stages in their order")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    certificate = check(instance, solution)
    said = standing(certificate.objective, bound, family_of(instance).units_of(instance).objective)
    valid = "" if certificate.feasible else "   NOT VALID"
    lines = [instance.name + valid, " · ".join(said), f"{certificate.headline} · micro-batch {solution.micro_batch}"]
    axes.set_title("\n".join(lines), fontsize=9)
