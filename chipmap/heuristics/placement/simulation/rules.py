"""The schedule of a plan of devices by the best of the decoder's own rules.

The page's decoder turns devices and keys into a schedule. A plan has no keys, so each rule is tried: minus the upward
rank, topological positions, ready times. Of the schedules that fit into the memories the shortest is taken, and the
solution says by which rule (:attr:`~chipmap.instances.placement.instance.PlacementSolution.keys`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chipmap.heuristics.placement.keys import default_keys, topological
from chipmap.heuristics.placement.simulation.memory import bytes_of, excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import plainly
from chipmap.records import InputError

#: Operations up to which the decoder runs as plain Python: three schedules take about as long as loading it compiled.
PLAIN = 5_000


def rules(problem: PlacementProblem) -> Iterator[tuple[str, IntArray, bool]]:
    """(name, keys [N], whether ready times take their place) of each rule, the default first."""
    yield "minus the upward rank", default_keys(problem), False
    yield "topological positions", topological(problem), False
    yield "ready times", np.zeros(problem.operations, dtype=np.int64), True


def decoded(problem: PlacementProblem, devices: IntArray, where: str = "devices") -> PlacementSolution:
    """The schedule on these devices [N] by the best rule: least bytes too many, then least step time, then the first.

    Raises :class:`InputError` where the plan sends something along a route that isn't there.
    """
    t, work, sizes = tables(problem), workspace(problem), bytes_of(problem)
    none, best = np.zeros(problem.operations, dtype=np.int64), None
    plain = problem.operations <= PLAIN
    if plain:  # entries of heaps are 64 bits wide: compiled functions widen what they join, NumPy's numbers don't
        t = t._replace(made=t.made.astype(np.int64), readers=t.readers.astype(np.int64))
    with plainly(plain):
        for name, keys, ready in rules(problem):
            step = int(simulate(t, devices, keys, ready, none, NEVER, work))
            if step < 0:
                u, v = problem.without_route(devices) or (0, 0)
                (a, b), names = (problem.device_names[d] for d in devices[[u, v]].tolist()), problem.names
                what = f"{names[v]!r} on {b!r} reads what {names[u]!r} on {a!r} makes, and no route leads there"
                raise InputError(what, where, "Give one, or plan other devices.")
            found = (int(excess(t, sizes, devices, work)), step)
            if best is None or found < best[0]:
                best = found, schedule(problem, devices, work).replace(keys=name)
    assert best is not None
    return best[1]
