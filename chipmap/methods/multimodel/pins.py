"""Links of a chain under pins (C6): schedules that don't obey go no further, and groups keep their chiplets a while.

Links work on the problem narrowed to pins and forbidden chiplets, so that their bounds hold. What they find obeys C6
where there are no groups; where there are, it may not, and :class:`Obeying` leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random

from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.starts import packed
from chipmap.instances.multimodel.instance import MultiSolution
from chipmap.instances.multimodel.pinned import Layer, chips_of, drawn_chips, obeys, parted, pinned, restricted
from chipmap.instances.multimodel.problem import MultiProblem, Segment, placed, schedule
from chipmap.methods.chain import Turn
from chipmap.records import Record

#: Draws of chiplets for groups, of a start.
DRAWS = 8


@dataclass(frozen=True)
class Obeying(Turn):
    """A turn whose schedules are handed over if they obey C6."""

    problem: MultiProblem

    def solution(self, solution: Record, source: str) -> None:
        """Hand over a schedule, unless it breaks C6."""
        assert isinstance(solution, MultiSolution)
        if obeys(self.problem, placed(self.problem, solution)):
            super().solution(solution, source)


def grouped(problem: MultiProblem) -> bool:
    """Whether layers are to share chiplets, or not to."""
    return problem.allowed is not None and (asked := pinned(problem)) is not None and asked.grouped


def start_pinned(problem: MultiProblem, turn: Turn) -> None:
    """Full chiplets as groups allow them; then whole models or full chiplets, with chiplets drawn for the groups."""
    if (windows := packed(problem, turn.run.options.seed, grouped=True)) is not None:
        turn.solution(schedule(problem, windows), "full chiplets")
    for seed in range(DRAWS):
        turn.deadline.check()
        if (chips := drawn_chips(problem, Random(seed))) is None:
            return
        drawn = restricted(problem, chips)
        if (windows := whole_models(drawn) or packed(drawn, seed)) is not None:
            turn.solution(schedule(problem, windows), "groups on drawn chiplets")


def search_groups(problem: MultiProblem, turn: Turn, most: int | None) -> None:
    """Rounds of annealing in which layers that share a chiplet keep it, and those apart have chiplets of their own:
    around the best schedule so far and drawn ones, in turns. Before them one that leaves groups out: on chiplets near
    its own groups may cost little."""
    from chipmap.heuristics.multimodel.annealing.rounds import rounds

    run, random, free = turn.run, Random(turn.run.options.seed), whole_models(problem) or packed(problem)
    start = free
    for free in rounds(problem, start, run.options.seed, turn.deadline, 1) if start is not None else ():
        turn.solution(schedule(problem, free), "annealing")  # some of these may obey the groups
    near = chips_of(free) if free is not None else {}
    for number in count():
        turn.deadline.check()
        if number == most:
            return
        best = run.best.solution if run.best is not None and number % 2 == 0 else None
        first = (
            placed(problem, best)
            if isinstance(best, MultiSolution)
            else _drawn(problem, random, near if number % 4 == 1 else {})
        )
        if first is None:
            if most is None and run.best is None and number >= DRAWS:
                return  # the model's turn
            continue
        drawn = parted(problem, first, random)
        for windows in rounds(drawn, first, 1_000 * run.options.seed + number, turn.deadline, 1):
            turn.solution(schedule(problem, windows), "annealing, groups on their chiplets")


def _drawn(problem: MultiProblem, random: Random, near: dict[Layer, int]) -> list[list[Segment]] | None:
    """A schedule that obeys C6: on chiplets near those of layers, or full chiplets as groups allow them, or on chiplets
    that are drawn for the groups."""
    seed = random.randrange(2**31)
    if not near and (found := packed(problem, seed, grouped=True)) is not None:
        return found
    if (chips := drawn_chips(problem, random, near)) is None:
        return None
    drawn = restricted(problem, chips)
    return whole_models(drawn) or packed(drawn, seed)
