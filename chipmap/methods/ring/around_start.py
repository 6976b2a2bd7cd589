"""Methods that search near the start of a run: what a person, a heuristic or a learned policy proposed.

============== =========================================================== =================================
method         operation v of the start f may go to                        solved by
============== =========================================================== =================================
``fix``        f(v) alone if all its producers and readers are on f(v),    CP-SAT, as a restriction
               else any chip
``proximity``  the chips f(v) - r … f(v) + r, r = :data:`REACH`            CP-SAT, as a restriction
============== =========================================================== =================================

Both start from f (``--warm-start``; without one from greedy's mapping), so that no run ends worse than its start. What
they leave out may hold the optimum: their models are restrictions, whose bounds and proofs of infeasibility don't count
(:class:`chipmap.family.Standing`). The only bounds told are the plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import IntArray, RingProblem, ring_problem
from chipmap.methods.around_start import Around, near_start
from chipmap.methods.ring.oracle_cuts import Cuts
from chipmap.methods.ring.programs import greedy
from chipmap.records import Record
from chipmap.result import Termination
from chipmap.run import Run

#: Chips that an operation may move in ``proximity``.
REACH = 1
#: The chips from … to that an operation may have, by operation.
Windows = Mapping[int, tuple[int, int]]


def fix(instance: RingInstance, run: Run) -> Termination:
    """The start's inner operations stay; those that have a producer or reader on another chip are placed anew."""
    return _near(instance, run, "fix", inner_stay)


def proximity(instance: RingInstance, run: Run) -> Termination:
    """Every operation stays within :data:`REACH` chips of the start's."""
    return _near(instance, run, "proximity", within_reach)


def inner_stay(problem: RingProblem, chips: IntArray) -> Windows:
    """One chip for each operation whose producers and readers are on its own chip in ``chips`` [n]."""
    ends = chips[problem.edges]
    border = set(problem.edges[ends[:, 0] != ends[:, 1]].ravel().tolist())
    return {v: (c, c) for v, c in enumerate(chips.tolist()) if v not in border}


def within_reach(problem: RingProblem, chips: IntArray) -> Windows:
    """The chips within :data:`REACH` of ``chips`` [n]."""
    return {v: (max(0, c - REACH), min(problem.chips - 1, c + REACH)) for v, c in enumerate(chips.tolist())}


def _near(
    instance: RingInstance, run: Run, source: str, windows: Callable[[RingProblem, IntArray], Windows]
) -> Termination:
    """Solve the model of the contraction within the windows round the run's best mapping, from it."""
    from chipmap.formulations.ring.cpsat import RingCpChoices, build

    def state(start: Record) -> Around:
        """The model within windows round ``start``, with what cuts off mappings that the oracle refused."""
        assert isinstance(start, RingSolution)
        contraction = contract(instance)
        problem = ring_problem(contraction.instance)
        near = contraction.lower(start)
        model = build(problem.instance, RingCpChoices(windows=windows(problem, np.array(near.chips, dtype=np.int64))))
        cuts = Cuts(run, instance, contraction)

        def cut() -> bool:
            new = cuts.update()
            cuts.apply(model)
            return new

        return Around(model, near, contraction.lift, cut)

    return near_start(run, source, lambda: greedy(instance, run), state)
