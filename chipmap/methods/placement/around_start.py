"""Methods that search near the start of a run: what a person, a heuristic or a learned policy proposed.

============== ================================================== ====================================================
method         group g of C1 may go to                            order
============== ================================================== ====================================================
``fix``        its device in the start alone if all that it reads what stays on a device keeps its order there; the
               and all its readers are there, else any            others go anywhere between
``proximity``  any device; at most :data:`REACH` groups leave     each operation starts at most :data:`SHIFT` · T1
               theirs                                             earlier or later than in the start
============== ================================================== ====================================================

Both are CP-SAT's model as a restriction, and begin from the start (``--warm-start``; without one from the best of all
starts): see :mod:`chipmap.methods.around_start`. The only bounds are those that take no search.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chipmap.formulations.placement.narrowing import NearPlacements
from chipmap.instances.placement.fixed_order import Schedule
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.methods.around_start import Around, near_start
from chipmap.methods.chain import Turn, follow
from chipmap.methods.placement.bounding import narrowing
from chipmap.methods.placement.chain import BOUND, START
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.first import begun_only
from chipmap.methods.placement.offload import keeping
from chipmap.records import Record
from chipmap.result import Termination
from chipmap.run import Run

#: Groups that may move in ``proximity``, and the share of the step by which starts may change. Untuned.
REACH, SHIFT = 20, 0.05


@keeping
def fix(instance: PlacementInstance, run: Run) -> Termination:
    """Groups that exchange nothing with other devices stay; the others are placed anew."""
    return _near(instance, run, "fix", inner_stay)


@keeping
def proximity(instance: PlacementInstance, run: Run) -> Termination:
    """At most :data:`REACH` groups move."""
    return _near(instance, run, "proximity", few_move)


def inner_stay(problem: PlacementProblem, devices: IntArray, start: IntArray | None) -> NearPlacements:
    """One device for each group none of whose storages, read or made, is on two devices with ``devices`` [N]; the order
    of ``start`` [N] (with step time) there."""
    storages = problem.storages
    crossing = devices[storages.sources] != devices[storages.readers]
    border = np.zeros(problem.operations, dtype=bool)
    border[problem.group[storages.sources[crossing]]] = border[problem.group[storages.readers[crossing]]] = True
    home = np.arange(problem.devices) == devices[:, None]
    return NearPlacements(border[problem.group][:, None] | home, devices, start, ordered=True)


def few_move(problem: PlacementProblem, devices: IntArray, start: IntArray | None) -> NearPlacements:
    """All devices, for at most :data:`REACH` groups another one than in ``devices`` [N], and much the same starts."""
    step = 0 if start is None else int((start + problem.time[np.arange(problem.operations), devices]).max(initial=0))
    return NearPlacements(np.ones_like(problem.allowed), devices, start, moves=REACH, shift=int(SHIFT * step))


def _near(
    instance: PlacementInstance,
    run: Run,
    source: str,
    near: Callable[[PlacementProblem, IntArray, IntArray | None], NearPlacements],
) -> Termination:
    """Solve the model with only placements near the run's best one, from it."""
    from chipmap.formulations.placement.cpsat import build
    from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices

    problem = placement_problem(instance)
    stages, turn = ChainState(problem), Turn(run, run.deadline)

    def state(start: Record) -> Around:
        assert isinstance(start, PlacementSolution)
        known = narrowing(stages, turn) if problem.timed else None
        times = Schedule.of(problem, start).start if problem.timed else None
        choices = PlacementCpChoices(narrowing=known, near=near(problem, problem.devices_of(start), times))
        return Around(build(instance, choices), start)

    return near_start(run, source, lambda: follow((BOUND, START), stages, turn), state, anew=begun_only(run))
