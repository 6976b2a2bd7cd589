"""Neighbourhoods of a mapping: what a few adjacent chips run is shared out again, exactly, by CP-SAT.

What the other chips run stays, and so does all that they work, carry and hold
(:class:`chipmap.formulations.ring.cpsat_assignment.Neighbourhood`). So a window of chips is judged by its own slowest
chip or inner link: that must get faster. Windows that hold the slowest chip of all come first; gains of the others make
room for them. Each gain lowers the sorted list of what chips and links take, so that the search ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import IntArray, charged, loads
from chipmap.result import Termination
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest

if TYPE_CHECKING:
    from chipmap.methods.ring.chain import Work

SOURCE = "chip windows"
#: Adjacent chips of a window: the next size when no window of this one is left.
SIZES = (3, 4, 5, 6)
#: The gap at which CP-SAT may stop, and the share of its value that a window must gain: the next one when no window of
#: any size is left. 0: a tick.
PRECISIONS = (0.01, 0.001, 0.0)
#: Deterministic work and seconds of CP-SAT on one window.
WINDOW_WORK, WINDOW_SECONDS = 1.0, 3.0
#: A window without the slowest chip must always gain this share: what makes no room is no gain. One that holds it need
#: only gain the precision / SLOWEST.
SHARE, SLOWEST = 0.001, 20
#: Windows that the chain tries on one incumbent, the share of the time left that they may take, and most seconds.
CHAIN_WINDOWS, CHAIN_SHARE, CHAIN_SECONDS = 400, 0.5, 30.0
#: Rejections by the user's own function after which a window counts as done.
REJECTIONS = 3


class Window(NamedTuple):
    """Chips ``first`` … ``last``."""

    first: int
    last: int


def windows(instance: RingInstance, run: Run) -> Termination:
    """Windows of the run's best mapping (without one: greedy's), until none gains or the time is up."""
    from chipmap.methods.ring.chain import Work, _simple_bounds, greedy

    def work() -> None:
        if run.best is None:
            greedy(instance, run)
        state = Work(instance, run)
        _simple_bounds(state)
        run.checkpoint()
        improve(state)

    return run.attempt(work)


def refine(state: Work) -> None:
    """A link of the chain: windows of an incumbent that they haven't seen, unless another solver is asked for."""
    run = state.run
    if run.upper is not None and run.upper != state.windowed and run.options.solver in (None, "cpsat"):
        share = min(CHAIN_SECONDS, CHAIN_SHARE * run.remaining)
        improve(state, float("inf") if run.options.deterministic else share, CHAIN_WINDOWS)
        state.windowed = run.upper
        run.checkpoint()


def improve(state: Work, seconds: float = float("inf"), most: float = float("inf")) -> None:
    """Search windows of the incumbent, if there is one, for ``seconds``, ``most`` of them; a note says how many.

    With C5 a mapping that the oracle rejects is cut off as in the other models, and the window asked again.
    """
    if state.run.best is None or state.problem.chips < 2 or not state.problem.n:
        return
    search = _Search(state, state.run.seconds + seconds, most)
    try:
        search.go()
    finally:
        note = f"{SOURCE}: {search.tried} tried, {search.gains} gained, {search.unknown} undecided in time"
        state.run.note("search", note)


class _Search:
    """A mapping, and which windows of it have been tried since something in them changed."""

    def __init__(self, state: Work, end: float, most: float) -> None:
        self.state, self.run, self.problem, self.end, self.most = state, state.run, state.problem, end, most
        assert state.run.best is not None and isinstance(state.run.best.solution, RingSolution)
        self.chips = np.array(state.contraction.lower(state.run.best.solution).chips, dtype=np.int64)
        self.done: set[Window] = set()
        self.precision = PRECISIONS[0]
        self.tried = self.gains = self.unknown = 0
        self._measure()

    def go(self) -> None:
        """Until no window is left, the time is up, or the run stops."""
        for self.precision in PRECISIONS:
            self.done.clear()
            self.run.checkpoint()
            while (window := self._next()) is not None:
                if self.run.seconds >= self.end or self.tried >= self.most:
                    return
                self._share_out(window)
                self.run.checkpoint()

    def _measure(self) -> None:
        on = loads(self.problem, self.chips)
        self.charged, self.links = charged(self.problem, on), on.load
        self.period = self._value(Window(0, self.problem.chips - 1))

    def _value(self, window: Window) -> int:
        """The slowest chip or inner link of a window."""
        first, last = window
        inner = self.links[first:last].max(initial=0) if self.problem.cost_mode == "period" else 0
        return max(int(self.charged[first : last + 1].max()), int(inner))

    def _next(self) -> Window | None:
        """The smallest untried window that can gain, of these the slowest."""
        for size in SIZES:
            size = min(size, self.problem.chips)
            used = int(self.chips.max())
            found = [Window(a, a + size - 1) for a in range(min(used, self.problem.chips - size) + 1)]
            left = [window for window in found if window not in self.done and self._hopeful(window)]
            if left:
                return max(left, key=self._value)
        return None

    def _target(self, window: Window) -> int:
        """The value that counts as a gain."""
        value, lower = self._value(window), self.run.lower.value if self.run.lower else 0
        share = self.precision / SLOWEST if value == self.period else max(SHARE, self.precision)
        return min(value - 1, max(lower, int((1 - share) * value)))

    def _hopeful(self, window: Window) -> bool:
        """Whether the window is slower than the run's bound, and its target within its longest operation and share."""
        target, lower = self._target(window), self.run.lower.value if self.run.lower else 0
        ticks = self.problem.ticks[self._inside(window)]
        share = -(-int(ticks.sum()) // (window.last - window.first + 1))
        return target >= max(lower, int(ticks.max(initial=0)), share)

    def _inside(self, window: Window) -> IntArray:
        found: IntArray = np.flatnonzero((self.chips >= window.first) & (self.chips <= window.last))
        return found

    def _share_out(self, window: Window) -> None:
        """Solve one window; keep a better mapping."""
        self.tried += 1
        for _ in range(REJECTIONS):
            better = self._solve(window)
            if better is None:
                break
            solution = RingSolution(instance=self.state.contraction.instance.name, chips=tuple(better.tolist()))
            if self.run.solution(self.state.contraction.lift(solution), SOURCE).feasible:
                self._accept(better)
                break
            self.run.checkpoint()
            if not self.state.cuts.update():
                break
        self.done.add(window)

    def _accept(self, better: IntArray) -> None:
        moved = better != self.chips
        touched = set(better[moved].tolist()) | set(self.chips[moved].tolist())
        self.done = {window for window in self.done if window.last < min(touched) or window.first > max(touched)}
        self.chips = better
        self.gains += 1
        self._measure()

    def _solve(self, window: Window) -> IntArray | None:
        """The mapping with the fastest window within its target that CP-SAT finds, or None."""
        from chipmap.formulations.ring.cpsat import RingCpChoices, build
        from chipmap.formulations.ring.cpsat_assignment import Neighbourhood

        around = Neighbourhood(tuple(self.chips.tolist()), *window)
        model = build(self.problem.instance, RingCpChoices(around=around, upper=self._target(window)))
        self.state.cuts.update()
        self.state.cuts.apply(model)
        for v in self._inside(window).tolist():
            model.native.add_hint(model.variables.chip[v], int(self.chips[v]))
        outcome = solve_model(model, self._request(), "cpsat")
        if outcome.value_of is None:
            self.unknown += outcome.termination.reason != "infeasible"
            return None
        return np.array(model.decode(outcome.value_of).chips, dtype=np.int64)

    def _request(self) -> SolveRequest:
        options, left = self.run.options, min(self.run.remaining, self.end - self.run.seconds)
        seconds = left if options.deterministic else min(left, WINDOW_SECONDS)
        return SolveRequest(
            gap=self.precision,
            time_limit=None if seconds == float("inf") else max(0.0, seconds),
            work_limit=WINDOW_WORK,
            threads=1,
            seed=options.seed,
            deterministic=options.deterministic,
            should_stop=lambda: not self.run.keep_going(),
        )
