"""How many picoseconds rounding up to 1 ps may add to the objective of a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.records.decimals import FEW_TICKS


def rounding(instance: DataflowInstance, objective: int, terms: Mapping[str, int]) -> Fraction:
    """Less than so many ticks where the objective is small: seven costs of each kernel, two of each tensor's reader,
    per layer and sample. Elsewhere 0: a layer of microseconds loses less than a millionth."""
    workload = instance.workload
    if objective >= FEW_TICKS:
        return Fraction(0)
    costs = 7 * len(workload.kernels) + 2 * len(workload.edges)
    return Fraction(min(objective, costs * workload.layers * instance.task.batch))
