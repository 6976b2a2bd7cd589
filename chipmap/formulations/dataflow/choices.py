"""For which degrees a model of family ``dataflow`` is stated, and what that makes it worth."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from math import prod
from typing import Any

from chipmap.family import Standing
from chipmap.instances.dataflow.costs import dataflow_problem, total_ticks
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees, check_degrees
from chipmap.records import InputError


def allowed_degrees(instance: DataflowInstance) -> list[Degrees]:
    """The task's degrees, or all that the network holds: each dimension carries another parallelism."""
    if instance.task.degrees is not None:
        return [instance.task.degrees]
    network, found = instance.system.network, []
    for uses in permutations(("tensor", "pipeline", "data"), len(network)):
        sizes = {use: prod(d.size for d, u in zip(network, uses, strict=True) if u == use) for use in uses}
        degrees = Degrees(**sizes, dimensions=uses)  # type: ignore[arg-type]
        try:
            check_degrees(instance, degrees)
        except InputError:
            continue
        found.append(degrees)
    return found


def settle(instance: DataflowInstance, wanted: Degrees | None) -> tuple[Degrees, Standing]:
    """The degrees of a model, and its standing: a restriction where the task allows others as well.

    It is one, too, where a tensor goes from a backward kernel to a forward one: the models run forward kernels first.
    Raises :class:`InputError` for degrees that aren't allowed, or if there are none.
    """
    allowed = allowed_degrees(instance)
    if not allowed:
        raise InputError("no degrees fit the network, the layers and the batch", "task.degrees", "Change one of them.")
    if wanted is not None and wanted not in allowed:
        raise InputError("these degrees are not among those that the task allows", "degrees", "Use allowed_degrees.")
    degrees = wanted or min(allowed, key=lambda one: _compute(instance, one))
    phase = {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    wires = [*instance.workload.edges, *(instance.workload.carries if instance.task.across_layers else ())]
    returns = any(phase[u] == "backward" and phase[v] == "forward" for u, v in wires)
    return degrees, Standing.RESTRICTION if len(allowed) > 1 or returns else Standing.EXACT


def _compute(instance: DataflowInstance, degrees: Degrees) -> int:
    problem = dataflow_problem(instance, degrees)
    layers = instance.workload.layers if instance.task.across_layers else 1
    return total_ticks(problem, layers * sum(min(o.compute for o in options) for options in problem.options))


def chosen(kind: type[Any], choices: Any) -> Any:
    """A record of choices of that kind from one, or from a mapping."""
    return kind(**choices) if isinstance(choices, Mapping) else choices
