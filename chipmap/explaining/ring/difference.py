"""The difference between two mappings of a ring instance: what moved, and what that does to chips, links and memory."""

from __future__ import annotations

import numpy as np

from chipmap.certificate import Certificate
from chipmap.explaining.driver import side_by_side
from chipmap.explanation import Difference, Moved
from chipmap.instances.ring.instance import RingSolution
from chipmap.instances.ring.loads import Loads, loads
from chipmap.instances.ring.problem import RingProblem
from chipmap.methods.ring.text import TICKS_PER_US, name
from chipmap.records import InputError, counted


def difference(
    problem: RingProblem, both: tuple[RingSolution, RingSolution], judged: tuple[Certificate, Certificate]
) -> Difference:
    """Two mappings side by side, valid or not; each has a chip of the package for every computing operation."""
    before, after = (placed(problem, solution, "") for solution in both)
    figures = (_figures(problem, loads(problem, chips)) for chips in (before, after))
    return side_by_side(judged, *figures).replace(moved=tuple(_moved(problem, before, after)))


def placed(problem: RingProblem, solution: RingSolution, which: str) -> list[int]:
    """The chips of all operations, 0 where it doesn't matter; :class:`InputError` if a computing one has no chip."""
    remedy = "`chipmap check` says what is wrong with it."
    if len(solution.chips) != problem.n:
        sizes = f"{counted(len(solution.chips), 'entry', 'entries')} for {counted(problem.n, 'operation')}"
        raise InputError(f"the mapping has {sizes}", which, remedy)
    for v in np.flatnonzero(problem.computing).tolist():
        if not 0 <= solution.chips[v] < problem.chips:
            what = f"operation {name(problem, v)!r} is on chip {solution.chips[v]}"
            raise InputError(f"{what}; the package has chips 0 to {problem.chips - 1}", which, remedy)
    return [chip if problem.computing[v] else 0 for v, chip in enumerate(solution.chips)]


def _moved(problem: RingProblem, before: list[int], after: list[int]) -> list[Moved]:
    """Runs of computing operations, neighbours in topological order, with the same move; most work first."""
    runs: list[list[int]] = []
    last: tuple[int, int] | None = None
    for v in problem.order:
        if not problem.computing[v]:
            continue
        move = (before[v], after[v])
        if move[0] != move[1] and move == last:
            runs[-1].append(v)
        elif move[0] != move[1]:
            runs.append([v])
        last = move
    runs.sort(key=lambda run: (-int(problem.ticks[run].sum()), before[run[0]]))
    return [
        Moved(
            first=name(problem, run[0]),
            last=name(problem, run[-1]),
            operations=len(run),
            source=before[run[0]],
            target=after[run[0]],
            figures={
                "work_us": int(problem.ticks[run].sum()) / TICKS_PER_US,
                "weight_bytes": problem.weights_of(run),
            },
        )
        for run in runs
    ]


def _figures(problem: RingProblem, on: Loads) -> dict[tuple[str, str], float]:
    """Quantities of chips and links by (resource, quantity), in the order of the chips."""
    found: dict[tuple[str, str], float] = {}
    for chip in range(problem.chips):
        found[f"chip {chip}", "work_us"] = float(on.work[chip] / TICKS_PER_US)
        found[f"chip {chip}", "memory_bytes"] = int(on.memory_bytes[chip])
        found[f"link {chip} -> {chip + 1}", "load_us"] = float(on.load[chip] / TICKS_PER_US)
    return found
