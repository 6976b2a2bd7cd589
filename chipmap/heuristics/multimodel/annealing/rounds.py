"""Rounds of annealing, ever longer, and of divisions between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.division import Divisions
from chipmap.heuristics.multimodel.annealing.search import Annealing, Windows, segments
from chipmap.instances.multimodel.problem import MultiProblem

#: Rounds in turns: from the best schedule (else from the start), first and last temperature as shares of the objective.
#: Tuned on scenarios 8 to 10 in both readings and the four models.
ROUNDS = ((False, 0.1, 1e-4), (True, 0.005, 1e-6), (True, 0.03, 1e-4), (True, 0.005, 1e-6))
#: Moves of the first round and of the longest ones. After every second round they are doubled.
FIRST, LONGEST = 250_000, 16_000_000
#: After so many rounds divisions come behind each, with this often as many moves.
EARLY, DIVIDING = 2, 1.0


def rounds(
    problem: MultiProblem,
    start: Windows,
    seed: int,
    deadline: Deadline,
    most: int | None = None,
    known: Windows | None = None,
    between: Callable[[], Windows | None] = lambda: None,
    dividing: float = DIVIDING,
) -> Iterator[Windows]:
    """Ever longer rounds from ``start`` and from the best schedule so far, which yield better and better schedules.

    They go on until the deadline, or for so many rounds as ``most`` says. ``known`` is the best schedule before them.
    After the first ones divisions follow behind each (:class:`~.division.Divisions`). Then ``between`` may say what
    others found meanwhile. ``dividing``: the moves of divisions, as a share of the round's.
    """
    moves, best, found, number = FIRST, float("inf"), known or start, 0
    divisions = Divisions(problem, seed)
    if known is not None:
        best = Annealing(problem, known, seed).best.value[0]
    while deadline.keep_going() and (most is None or number < most):
        again, hot, cold = ROUNDS[number % len(ROUNDS)]
        search = Annealing(problem, found if again else start, 1_000 * seed + number)
        if search.best.value[0] < best:
            best, found = search.best.value[0], segments(search.best)
        for windows in search.run(moves, deadline, hot, cold):
            if search.best.value[0] < best:
                best, found = search.best.value[0], windows
                yield windows
        number += 1
        if problem.windows > 1:
            divisions.take(float(search.best.value[0]), segments(search.best))
            divisions.take(best, found)
            for windows in divisions.run(round(dividing * moves), deadline) if number > EARLY else ():
                best, found = divisions.best, windows
                yield windows
        moves = min(LONGEST, moves if number % 2 else 2 * moves)
        if (other := between()) is not None:
            value = Annealing(problem, other, seed).best.value[0]
            best, found = (value, other) if value < best else (best, found)
