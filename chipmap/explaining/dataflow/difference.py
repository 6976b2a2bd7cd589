"""Two dataflow mappings side by side."""

from __future__ import annotations

from chipmap.certificate import Certificate
from chipmap.explaining.dataflow.spent import spent
from chipmap.explaining.dataflow.statements import plan_of
from chipmap.explaining.driver import side_by_side
from chipmap.explanation import Difference
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution


def difference(
    instance: DataflowInstance,
    both: tuple[DataflowSolution, DataflowSolution],
    judged: tuple[Certificate, Certificate],
) -> Difference:
    """What the time goes to, degrees and plan, and how many kernels have another scheme, where the two differ."""
    before, after = (_figures(instance, one, found) for one, found in zip(both, judged, strict=True))
    pairs = list(zip(both[0].schemes, both[1].schemes, strict=False))
    before["kernels", "with_another_scheme"] = 0.0
    after["kernels", "with_another_scheme"] = float(sum(a != b for a, b in pairs))
    return side_by_side(judged, before, after)


def _figures(
    instance: DataflowInstance, solution: DataflowSolution, certificate: Certificate
) -> dict[tuple[str, str], float]:
    """Figures by (resource, quantity); none of a mapping without an objective."""
    if certificate.objective is None or not certificate.feasible:
        return {}
    if solution.stage_groups:
        return {("time", f"{label}_s"): ticks / 1e12 for label, ticks in certificate.terms.items()}
    parts = spent(instance, solution, certificate.terms)
    found = {("time", f"{name.replace(' ', '_')}_s"): ticks / 1e12 for name, ticks in parts.parts.items()}
    found |= {("plan", name): float(value) for name, value in plan_of(solution).items() if isinstance(value, int)}
    found["plan", "partitions"] = certificate.figures["partitions"]
    found["DRAM", "held_bytes"] = certificate.figures["dram_bytes"]
    return found
