"""Two placements side by side."""

from __future__ import annotations

from collections.abc import Mapping

from chipmap.certificate import Certificate
from chipmap.explaining.driver import side_by_side
from chipmap.explaining.placement.spent import spent
from chipmap.explanation import Difference
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.loads import loads
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.placement.timeline import timeline


def difference(
    problem: PlacementProblem,
    both: tuple[PlacementSolution, PlacementSolution],
    judged: tuple[Certificate, Certificate],
) -> Difference:
    """Devices, channels and what the time goes to, where the two differ, and how many operations changed the device."""
    before, after = (_figures(problem, one) for one in both)
    moved = sum(both[0].devices.get(name) != both[1].devices.get(name) for name in problem.names)
    before["operations", "on_another_device"], after["operations", "on_another_device"] = 0, float(moved)
    return side_by_side(judged, before, after)


def _figures(problem: PlacementProblem, solution: PlacementSolution) -> dict[tuple[str, str], float]:
    """Figures by (resource, quantity)."""
    found: dict[tuple[str, str], float] = {}
    if not problem.timed:
        for name, one in zip(problem.device_names, loads(problem, solution), strict=True):
            parts: Mapping[str, float] = {"computing_ms": one.work / 1e6, "transfers_ms": one.sent / 1e6}
            found |= {(name, quantity): value for quantity, value in parts.items()}
            found[name, "operations"] = float(one.operations)
        return found
    line = timeline(problem, solution)
    sums = spent(line.chain)
    found["critical chain", "computing_ms"] = sums.compute / 1e6
    found["critical chain", "transfers_ms"] = sums.transfer / 1e6
    for d, name in enumerate(problem.device_names):
        found[name, "computing_ms"] = line.busy[d] / 1e6
        found[name, "operations"] = float(line.device.count(d))
    for c, moves in line.channels.items():
        found[line.channel_names[c], "transfers"] = float(len(moves))
    return found
