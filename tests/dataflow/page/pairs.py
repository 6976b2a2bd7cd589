"""Updates that run late, and two passes at once: ``docs/families/dataflow-schedules.md``, "Zero bubbles" and "Two
passes at once"."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from tests.dataflow.page import amounts
from tests.dataflow.page.amounts import PageCase

LATE = ("zb-h1", "dualpipe-v")


def paired(instance: DataflowInstance, degrees: Degrees) -> bool:
    """Whether passes run in pairs."""
    return instance.task.schedule == "dualpipe-v" and degrees.pipeline > 1


def late_moments(case: PageCase) -> list[tuple[int, int]]:
    """C6: passes through one layer before their B, and between B and W, at the moments that count; none where no
    update runs late."""
    stages, layers = case.degrees.pipeline, case.layers
    if case.instance.task.schedule not in LATE or stages == 1:
        return []
    if case.instance.task.schedule == "zb-h1":
        most = min(case.m, stages) * layers
        return [(most, 0), (1, most - 1)]
    chunk = layers // 2
    late = [((2 * stages - 1) * chunk + 1, chunk - 1)]
    late += [((stages - after) * chunk + 1, after * chunk - 1) for after in range(2, stages + 1)]
    return [((2 * stages + 1) * chunk, 0), *late]


def in_domain(instance: DataflowInstance, degrees: Degrees, rounds: int) -> bool:
    """C0 of pairs, for so many micro-batches."""
    if not paired(instance, degrees):
        return True
    return instance.workload.layers % (2 * degrees.pipeline) == 0 and rounds >= 2 * degrees.pipeline


def layer(
    case: PageCase, runs: Mapping[int, int], own: Mapping[int, int], network: Mapping[int, int], forward: set[int]
) -> Fraction:
    """T4 of partitions that run so often, with their own times (compute, DRAM and launch) and network times."""
    n, t = (sum(runs[p] * times[p] for p in runs) for times in (network, own))
    f = sum(own[p] + network[p] for p in forward)
    s, stages = t + n, case.degrees.pipeline
    pair = max(t, n, f, s - f)
    return Fraction((2 * case.m - stages - 2) * pair + 3 * stages * s, 2 * (case.m + stages - 1))


def filled(case: PageCase) -> int:
    """Ticks of the bubble that late updates fill."""
    if case.instance.task.schedule not in LATE:
        return 0
    kernels, stages = case.instance.workload.kernels, case.degrees.pipeline
    forward = [one for one in kernels if one.phase == "forward"]
    other = [one for one in kernels if one.phase == "backward" and not one.update]
    updates = [one for one in kernels if one.phase == "backward" and one.update]
    w = case.layers * min(amounts.least_computed(case, one) for one in (forward, other, updates))
    return (stages - 1 + min(case.m, stages) - 1) * w
