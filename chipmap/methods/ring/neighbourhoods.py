"""Neighbourhoods of a mapping: what a few adjacent chips run is shared out again, exactly, by CP-SAT.

What the other chips run stays, and so does all that they work, carry and hold
(:class:`chipmap.formulations.ring.cpsat_assignment.Neighbourhood`). So a neighbourhood is judged by its own slowest
chip or inner link: that must get faster. Those that hold the slowest chip of all come first; gains of the others make
room for them. Each gain lowers the sorted list of what chips and links take, so that the search ends.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.family import Model
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.loads import charged, loads
from chipmap.instances.ring.problem import IntArray
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Limits
from chipmap.methods.neighbourhoods import Tally, improve, moved_work, proposed
from chipmap.methods.ring.programs import from_best
from chipmap.methods.ring.state import RingChainState
from chipmap.result import Termination
from chipmap.run import Run

SOURCE = "neighbourhoods"
#: Adjacent chips of a neighbourhood: the next size when none of this one is left.
SIZES = (3, 4, 5, 6)
#: The gap at which CP-SAT may stop, and the share of its value that a neighbourhood must gain: the next one when none
#: of any size is left. 0: a tick.
PRECISIONS = (0.01, 0.001, 0.0)
#: Deterministic work and seconds of CP-SAT on one neighbourhood.
WORK, SECONDS = 1.0, 3.0
#: A neighbourhood without the slowest chip must always gain this share: what makes no room is no gain. One that holds
#: it need only gain the precision / SLOWEST.
SHARE, SLOWEST = 0.001, 20
#: Neighbourhoods that the chain tries on one incumbent, the share of the time left that they may take, most seconds.
CHAIN_MOST, CHAIN_SHARE, CHAIN_SECONDS = 400, 0.5, 30.0
#: Rejections by the user's own function after which a neighbourhood counts as done.
REJECTIONS = 3


class Chips(NamedTuple):
    """The neighbourhood of chips ``first`` … ``last``."""

    first: int
    last: int


def windows(instance: RingInstance, run: Run) -> Termination:
    """Neighbourhoods of the run's best mapping (without one: greedy's), until none gains or the time is up."""
    return run.attempt(lambda: _search(from_best(instance, run), run.deadline))


def guided(instance: RingInstance, run: Run) -> Termination:
    """:func:`windows` in the order that the shipped policy proposes (extra ``learned``): of the neighbourhoods that can
    gain, first the one with the most work on other chips in the policy's best sample than in the mapping."""
    from chipmap.methods.ring.sampling import learned

    def work() -> None:
        state = from_best(instance, run)
        sample = proposed(run, instance, learned, "learned start")
        chips = None if sample is None else np.array(state.contraction.lower(sample).chips, dtype=np.int64)
        _search(state, run.deadline, proposal=chips)

    return run.attempt(work)


def refine(state: RingChainState, turn: Turn) -> None:
    """A link of the chain: neighbourhoods of the incumbent for a while, unless another solver is wanted."""
    run = state.run
    if run.options.solver in (None, "cpsat"):
        seconds = min(CHAIN_SECONDS, CHAIN_SHARE * turn.deadline.seconds)
        _search(state, turn.deadline if run.options.deterministic else turn.deadline.within(seconds), CHAIN_MOST)


def _search(
    state: RingChainState, deadline: Deadline, most: float = float("inf"), proposal: IntArray | None = None
) -> None:
    """Search the incumbent's neighbourhoods, if there is one, in the order that a ``proposal`` [n] of chips makes; a
    note says how many."""
    run = state.run
    if run.best is None or state.problem.chips < 2 or not state.problem.n:
        return
    tally = Tally()
    try:
        improve(run, _Search(state, proposal), deadline, tally, most)
    finally:
        run.note("search", f"{SOURCE}: {tally}", **vars(tally))
    run.checkpoint()


class _Search:
    """A mapping, and which neighbourhoods of it have been tried since something in them changed."""

    def __init__(self, state: RingChainState, proposal: IntArray | None = None) -> None:
        self.proposal = proposal
        self.state, self.run, self.problem = state, state.run, state.problem
        assert state.run.best is not None and isinstance(state.run.best.solution, RingSolution)
        self.chips = np.array(state.contraction.lower(state.run.best.solution).chips, dtype=np.int64)
        self.done: set[Chips] = set()
        self.rejections: Counter[Chips] = Counter()
        self.precisions = list(PRECISIONS)
        self._measure()

    def pick(self) -> Chips | None:
        """The smallest untried neighbourhood that can gain, of these the slowest, or the proposal's first."""
        while self.precisions:
            for size in (min(size, self.problem.chips) for size in SIZES):
                last = min(int(self.chips.max()), self.problem.chips - size)
                found = (Chips(first, first + size - 1) for first in range(last + 1))
                left = [chips for chips in found if chips not in self.done and self._hopeful(chips)]
                if left:
                    return max(left, key=self._value if self.proposal is None else self._moved)
            self.precisions.pop(0)
            self.done.clear()
        return None

    def model(self, chips: Chips) -> Model:
        """The mappings with a faster neighbourhood (within its target), those that the oracle rejected cut off."""
        from chipmap.formulations.ring.cpsat import RingCpChoices, build
        from chipmap.formulations.ring.cpsat_assignment import Neighbourhood

        around = Neighbourhood(tuple(self.chips.tolist()), *chips)
        model = build(self.problem.instance, RingCpChoices(around=around, upper=self._target(chips)))
        self.state.cuts.update()
        self.state.cuts.apply(model)
        for v in self._inside(chips).tolist():
            model.native.add_hint(model.variables.chip[v], int(self.chips[v]))
        return model

    def limits(self, chips: Chips) -> Limits:
        """One thread and deterministic work."""
        return Limits(seconds=SECONDS, work=WORK, gap=self.precisions[0], threads=1)

    def take(self, chips: Chips, better: RingSolution | None) -> bool:
        """Keep a better mapping; one that the oracle rejects is cut off, and the neighbourhood asked again."""
        if better is not None and self.state.report(better.chips, SOURCE):
            self._accept(np.array(better.chips, dtype=np.int64))
            self.done.add(chips)
            return True
        self.rejections[chips] += 1
        if better is None or self.rejections[chips] == REJECTIONS or not self.state.cuts.update():
            self.done.add(chips)
        return False

    def _measure(self) -> None:
        on = loads(self.problem, self.chips)
        self.charged, self.links = charged(self.problem, on), on.load
        self.period = self._value(Chips(0, self.problem.chips - 1))

    def _value(self, chips: Chips) -> int:
        """The slowest chip or inner link of a neighbourhood."""
        first, last = chips
        inner = self.links[first:last].max(initial=0) if self.problem.cost_mode == "period" else 0
        return max(int(self.charged[first : last + 1].max()), int(inner))

    def _moved(self, chips: Chips) -> tuple[int, int]:
        """The work in a neighbourhood that the proposal has on other chips; its value, where that is equal."""
        assert self.proposal is not None
        moved = moved_work(self._inside(chips), self.chips, self.proposal, self.problem.ticks)
        return moved, self._value(chips)

    def _target(self, chips: Chips) -> int:
        """The value that counts as a gain."""
        value, precision = self._value(chips), self.precisions[0]
        share = precision / SLOWEST if value == self.period else max(SHARE, precision)
        return min(value - 1, max(self.state.lower, int((1 - share) * value)))

    def _hopeful(self, chips: Chips) -> bool:
        """Whether the neighbourhood is slower than the bound, and its target is no less than its longest operation
        and its share of the work."""
        ticks = self.problem.ticks[self._inside(chips)]
        share = -(-int(ticks.sum()) // (chips.last - chips.first + 1))
        return self._target(chips) >= max(self.state.lower, int(ticks.max(initial=0)), share)

    def _inside(self, chips: Chips) -> IntArray:
        found: IntArray = np.flatnonzero((self.chips >= chips.first) & (self.chips <= chips.last))
        return found

    def _accept(self, better: IntArray) -> None:
        moved = better != self.chips
        touched = set(better[moved].tolist()) | set(self.chips[moved].tolist())
        self.done = {chips for chips in self.done if chips.last < min(touched) or chips.first > max(touched)}
        self.rejections.clear()
        self.chips = better
        self._measure()
