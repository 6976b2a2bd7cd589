"""Windows of a schedule: operations that start one after the other are placed anew by CP-SAT, the rest as it is.

The model (:mod:`chipmap.formulations.placement.cpsat_window`) says nothing of memory and of later transfers. So the
decoder judges: a window's devices and order count if the whole step gets shorter. A window is tried if it holds
critical operations. Those with most critical time come first, or those that a proposal would change most. With each
gain all windows are open again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chipmap.family import Model
from chipmap.instances.placement.fixed_order import Schedule
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.learned import needs
from chipmap.methods.chain import Turn, follow
from chipmap.methods.model_solve import Limits
from chipmap.methods.neighbourhoods import Tally, improve, moved_work, proposed
from chipmap.methods.placement.baselines import policy
from chipmap.methods.placement.chain import BOUND, START
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.first import begun_only
from chipmap.methods.placement.offload import keeping
from chipmap.result import Termination
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.formulations.placement.cpsat_window import Placed

SOURCE = "windows"
#: Operations of a window: the next size when none of this one is left. Windows begin every half of it.
SIZES = (30, 60, 120)
#: Deterministic work and seconds of CP-SAT on a window.
WORK, SECONDS = 1.0, 3.0
#: Placements that the policy draws for a proposal, of which it learns: 40 steps of Adam.
DRAWN = 160


class Span(NamedTuple):
    """The operations at ``first`` … ``last`` - 1 of the order by starts."""

    first: int
    last: int


@keeping
def windows(instance: PlacementInstance, run: Run) -> Termination:
    """Windows of the run's best schedule (without one: of the best start), until none gains or the time is up."""
    return run.attempt(lambda: _search(*_begun(instance, run)))


@keeping
def guided(instance: PlacementInstance, run: Run) -> Termination:
    """:func:`windows` in the order that a policy proposes (extra ``learned``): of the windows with critical operations,
    first the one with the most work on other devices in the best of :data:`DRAWN` placements that it draws."""
    needs.require()

    def work() -> None:
        state, turn = _begun(instance, run)
        sample = proposed(run, instance, policy, "learned policy", native={"samples": DRAWN})
        _search(state, turn, None if sample is None else state.problem.devices_of(sample))

    return run.attempt(work)


def _begun(instance: PlacementInstance, run: Run) -> tuple[ChainState, Turn]:
    """The bounds by the work, and the run's best placement by the decoder, in its own order or the decoder's; without
    one the best start."""
    state, turn = ChainState(placement_problem(instance)), Turn(run, run.deadline)
    given = None if begun_only(run) else run.best
    follow((BOUND,) if given is not None else (BOUND, START), state, turn)
    if given is not None and state.problem.timed:
        assert isinstance(given.solution, PlacementSolution)
        now = Schedule.of(state.problem, given.solution)
        state.evaluate_and_keep(now.device)
        state.evaluate_and_keep(now.device, np.argsort(now.order).astype(np.int64))
        if state.best is not None and state.best[:2] < (0, given.objective):
            state.tell_best(turn, given.source)
    run.checkpoint()
    return state, turn


def _search(state: ChainState, turn: Turn, proposal: IntArray | None = None) -> None:
    """Search the best placement's windows, in the order that a ``proposal`` [N] of devices makes; a note says how
    many."""
    run = turn.run
    if not state.problem.timed or state.best is None or state.best[0] > 0 or state.problem.devices < 2:
        return
    tally = Tally()
    try:
        improve(run, _Search(state, turn, proposal), turn.deadline, tally)
    finally:
        run.note("search", f"{SOURCE}: {tally}", **vars(tally))
    run.checkpoint()


class _Search:
    """A schedule that the decoder made, and which windows of it have been tried."""

    def __init__(self, state: ChainState, turn: Turn, proposal: IntArray | None) -> None:
        self.state, self.turn, self.proposal = state, turn, proposal
        self.size = 0
        self._measure()

    def pick(self) -> Span | None:
        """The untried window of the smallest size with critical operations that has most critical time, or first of all
        most work elsewhere in the proposal."""
        count = len(self.now.order)
        while self.size < len(SIZES):
            size = SIZES[self.size]
            spans = (Span(first, min(count, first + size)) for first in range(0, max(1, count - size // 2), size // 2))
            left = [span for span in spans if span not in self.done and self._critical(span)]
            if left:
                return max(left, key=self._value)
            self.size += 1
        return None

    def model(self, span: Span) -> Model:
        """The window's placements with a shorter step."""
        from chipmap.formulations.placement.cpsat_window import ScheduleWindow, build

        return build(ScheduleWindow(self.now, self._inside(span)), self.now.step - 1)

    def limits(self, span: Span) -> Limits:
        """One thread and deterministic work."""
        return Limits(seconds=SECONDS, work=WORK, threads=1)

    def take(self, span: Span, better: Placed | None) -> bool:
        """Let the decoder judge the window's new devices and order; whether the step is shorter and all fits."""
        self.done.add(span)
        if better is None:
            return False
        inside, order = self._inside(span), self.now.order
        devices = self.now.device.copy()
        devices[inside] = better.devices
        anew = inside[np.argsort(better.starts, kind="stable")]
        key = np.empty(len(order), dtype=np.int64)
        key[np.concatenate((order[: span.first], anew, order[span.last :]))] = np.arange(len(order))
        gained = self.state.evaluate_and_keep(devices, key)
        gained = self.state.evaluate_and_keep(devices) or gained
        if gained:
            self.state.tell_best(self.turn, SOURCE)
            self._measure()
        return gained

    def _measure(self) -> None:
        self.now, self.done = Schedule.of(self.state.problem, self.state.decoded()), set[Span]()
        self.size = 0

    def _inside(self, span: Span) -> IntArray:
        return self.now.order[span.first : span.last]

    def _critical(self, span: Span) -> int:
        return int(self.now.critical[self._inside(span)].sum())

    def _value(self, span: Span) -> tuple[int, int]:
        if self.proposal is None:
            return 0, self._critical(span)
        moved = moved_work(self._inside(span), self.now.device, self.proposal, self.now.time)
        return moved, self._critical(span)
