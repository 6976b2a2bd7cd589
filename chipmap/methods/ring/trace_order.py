"""Mappings in the order of the trace, whose cuts are moved to where modules begin as long as that costs nothing.

So split points and lists of modules can say them (:mod:`chipmap.instances.trace_order`). The objective is that of the
fullest chip or link; cuts between others may be elsewhere. Plain code, for every mapping that a method tells.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice

import numpy as np

from chipmap.instances.grain import modules
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.trace_order import Cuts, cuts
from chipmap.records import kept
from chipmap.run import Run

#: Operations above which mappings are told as they are found, and places that are tried for a cut: so that moving 35
#: cuts takes a fraction of a second.
LARGE, TRIALS = 2_000, 8


def telling(run: Run, instance: RingInstance, solution: RingSolution) -> RingSolution:
    """``solution``, or what :func:`at_modules` makes of it where that is valid.

    With an oracle or an evaluator, which have a word in what is best, it stays as it is.
    """
    if run.oracle is not None or run.evaluator is not None:
        return solution
    moved = at_modules(instance, solution)
    return moved if moved is not None and run.check(instance, moved).feasible else solution


def at_modules(instance: RingInstance, solution: RingSolution) -> RingSolution | None:
    """A mapping in the order of the trace with its cuts moved to where modules begin, each as near as may be.

    The objective is no larger; constraints aren't looked at. None where nothing moves, where the mapping isn't in
    that order, and above :data:`LARGE` operations.
    """
    problem = ring_problem(instance)
    computing = np.flatnonzero(problem.computing)
    chips = np.array(solution.chips, dtype=np.int64)
    steps = np.diff(chips[computing])
    if not 0 < len(computing) <= LARGE or (steps < 0).any():
        return None
    known = kept(instance, "_cuts", _cuts)
    at = [0, *(np.flatnonzero(steps) + 1).tolist(), len(computing)]
    on = chips[computing[at[:-1]]]
    work = np.concatenate([[0], np.cumsum(problem.ticks[computing])])
    limit, before = max(terms(problem, chips)), chips.copy()
    for j in range(1, len(at) - 1):
        low, here, high = at[j - 1 : j + 2]
        near = (c for c in _nearest(known, low, here, high) if max(work[c] - work[low], work[high] - work[c]) <= limit)
        for cut in islice(near, TRIALS):
            trial = chips.copy()
            trial[computing[low:cut]], trial[computing[cut:high]] = on[j - 1 : j + 1]
            if max(terms(problem, trial)) <= limit:
                at[j], chips = cut, trial
                break
    if (chips == before).all():
        return None
    return lift(instance, {int(v): int(chips[v]) for v in computing})


def _cuts(instance: RingInstance) -> Cuts:
    """The cuts of the computing operations."""
    paths = modules(instance.graph, instance.scopes).path
    return cuts([paths[v] for v in np.flatnonzero(ring_problem(instance).computing).tolist()])


def _nearest(known: Cuts, low: int, here: int, high: int) -> list[int]:
    """The cuts between two others that are more telling than that at ``here``, the most telling and nearest first."""
    found: dict[int, None] = {}
    for wanted in (known.list, known.split):
        if here in wanted:
            break
        inside = wanted[bisect_right(wanted, low) : bisect_left(wanted, high)]
        found |= dict.fromkeys(sorted(inside, key=lambda cut: abs(cut - here)))
    return list(found)
