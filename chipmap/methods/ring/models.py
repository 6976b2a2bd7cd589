"""The methods of family ``ring`` that solve its explicit models: MIP by HiGHS or Gurobi, CP-SAT with station windows.

Every method is a function (instance, run) -> Termination that reports to ``run``. All but ``cpsat_cold`` work on the
lossless contraction and start from the run's best solution, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from chipmap.family import Model
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.instances.ring.station_windows import least_target, station_windows
from chipmap.methods.model_solve import BROKEN, Finds, Limits, conclude, solve_within
from chipmap.methods.ring.infeasibility import reasons
from chipmap.methods.ring.oracle_cuts import Cuts
from chipmap.result import Termination
from chipmap.run import Run
from chipmap.solvers.native import proofs_void
from chipmap.solvers.outcome import Outcome

#: Seconds of the first decision problem; doubled whenever a round of them has decided nothing.
FIRST_SLICE = 2.0
#: Slices so long have no end: a solver that still decides nothing says what isn't so.
ENDLESS = 1e9
#: Where between bound and incumbent (without one: twice the bound) the decision problems of a round ask. The bound is
#: often the optimum, and the nearer the target is to it, the narrower are the windows.
SHARES = (0.0, 0.01, 0.05, 0.2, 0.6)
#: Relative precision of the bound by windows.
WINDOW_PRECISION = 1e-6


def mip(instance: RingInstance, run: Run) -> Termination:
    """The MIP of the contracted instance, within the windows of the incumbent's value."""
    return _mip(instance, run, "full", "mip")


def mip_path(instance: RingInstance, run: Run) -> Termination:
    """The MIP restricted to f(v) <= f(u) + 1 on every flow: mappings, no bound."""
    return _mip(instance, run, "path", "mip path")


def cpsat_cold(instance: RingInstance, run: Run) -> Termination:
    """CP-SAT on the instance as it is: no contraction, start, window or cutoff."""
    from chipmap.formulations.ring.cpsat import build

    task = _Task(run, lambda solution: solution, "cpsat cold", Cuts(run, instance))
    return run.attempt(lambda: task.solve_all(build(instance), None))


def cpsat(instance: RingInstance, run: Run) -> Termination:
    """CP-SAT on the contracted instance: decision problems within station windows, then the whole, in turns.

    A target without windows, or without a solution in its windows, is a bound: the optimum lies above it.
    """
    contraction = contract(instance)
    return run.attempt(lambda: _Search(contraction, run).go())


def decision(problem: RingProblem, target: int) -> Model | None:
    """The CP-SAT model of "objective <= target" within the station windows, or None if the windows refute it."""
    from chipmap.formulations.ring.cpsat import RingCpChoices, build

    within = station_windows(problem, target)
    if within is None:
        return None
    return build(problem.instance, RingCpChoices(objective="feasible", windows=within.pairs(), upper=target))


class _Task:
    """The models of one instance in a run: they obey the oracle's rejections, and their finds are lifted."""

    def __init__(self, run: Run, lift: Callable[[RingSolution], RingSolution], source: str, cuts: Cuts) -> None:
        self.run, self.source, self.cuts = run, source, cuts
        self.finds = Finds(source, lift)
        self.failures = list[str]()  # of the solver, since its last solve that ended as solves do

    def solve(self, model: Model, start: RingSolution | None = None, seconds: float | None = None) -> Outcome:
        """Solve ``model`` for ``seconds`` at most (default: the time left), reporting as the solver goes."""
        self.cuts.update()
        self.cuts.apply(model)
        outcome = solve_within(self.run, model, self.finds, start, Limits(seconds=seconds))
        end = outcome.termination
        self.failures = [*self.failures, f"{end.reason} {end.detail}"] if end.reason in BROKEN else []
        return outcome

    def solve_all(self, model: Any, start: RingSolution | None) -> None:
        """Solve a model without a cutoff, or with one at the incumbent's value: infeasible means that there is none."""
        run, outcome = self.run, self.solve(model, start)
        while outcome.termination.reason in ("optimal", "feasible") and self.cuts.update():
            run.checkpoint()
            if outcome.termination.limit != "none":
                break
            outcome = self.solve(model, start)
        if outcome.termination.reason == "infeasible" and model.standing.bounds:
            self.infeasible(model.instance)
        else:
            conclude(run, outcome, self.source)

    def infeasible(self, instance: RingInstance) -> None:
        """Report that ``instance``, which is modelled, has no mapping."""
        self.run.infeasible(*(self.cuts.reason() or reasons(instance, self.run)))


def _mip(instance: RingInstance, run: Run, family: Literal["full", "path"], source: str) -> Termination:
    from chipmap.formulations.ring.mip import RingMipChoices, build

    def work() -> None:
        """Build the model of the contraction with the run's windows and incumbent, and solve it."""
        contraction = contract(instance)
        problem = ring_problem(contraction.instance)
        upper = run.upper
        within = station_windows(problem, upper) if upper is not None else None
        start = contraction.lower(run.best.solution) if run.best is not None else None  # type: ignore[arg-type]
        choices = RingMipChoices(family=family, windows=within.pairs() if within is not None else None, upper=upper)
        run.checkpoint()
        model = build(contraction.instance, choices)
        run.checkpoint()
        _Task(run, contraction.lift, source, Cuts(run, instance, contraction)).solve_all(model, start)

    return run.attempt(work)


class _Search:
    """CP-SAT on one contracted instance, in turns of growing length."""

    def __init__(self, contraction: Contraction, run: Run) -> None:
        self.contraction, self.run = contraction, run
        self.problem = ring_problem(contraction.instance)
        self.task = _Task(run, contraction.lift, "cpsat", Cuts(run, contraction.original, contraction))
        self.asked: dict[int, float] = {}
        self.worst = self.problem.most_ticks

    def go(self) -> None:
        """Until the gap is closed, infeasibility is proved, the run stops, or the solver fails again and again."""
        self._bounds()
        void = proofs_void("cpsat", self.run.options.native)
        seconds = FIRST_SLICE
        while seconds < ENDLESS:
            self.run.checkpoint()
            before = self._state()
            self._round(seconds)
            if self.run.best is None or self._state() == before:
                self._whole(seconds)
            if self._state() == before:
                if self.task.failures:
                    self.run.trouble(f"cpsat: {self.task.failures[-1]}")
                if self.task.failures or void:
                    return
                seconds *= 2

    def _bounds(self) -> None:
        """The average, the longest operation, and the least target that leaves windows (none: infeasible)."""
        run, problem = self.run, self.problem
        run.bound(problem.least_ticks, "average and longest")
        run.checkpoint()
        high = run.upper if run.upper is not None else self.worst
        if run.best is None and station_windows(problem, self.worst) is None:
            self.task.infeasible(problem.instance)
        else:
            run.bound(least_target(problem, self._lower(), high, run.deadline, WINDOW_PRECISION), "station windows")

    def _round(self, seconds: float) -> None:
        """Decision problems from the bound upwards, until one has a solution; none is asked twice for as long."""
        before = self.run.upper
        for share in SHARES:
            target = self._between(share)
            if self.asked.get(target, 0.0) < seconds:
                self.asked[target] = seconds
                self._ask(target, seconds)
                self.run.checkpoint()
                if self.task.cuts.update():
                    self.asked.clear()  # what was found is cut off now: ask again
            if self.run.upper != before:
                return

    def _state(self) -> tuple[int | None, int]:
        return self.run.upper, self._lower()

    def _start(self) -> RingSolution:
        """The incumbent on the contracted operations."""
        assert self.run.best is not None and isinstance(self.run.best.solution, RingSolution)
        return self.contraction.lower(self.run.best.solution)

    def _lower(self) -> int:
        return self.run.lower.value if self.run.lower is not None else 0

    def _between(self, share: float) -> int:
        high = min(self.worst, 2 * self._lower()) if self.run.upper is None else self.run.upper - 1
        return self._lower() + int(share * (high - self._lower()))

    def _ask(self, target: int, seconds: float) -> None:
        """Whether a solution with objective <= ``target`` exists: a bound or a new incumbent, or neither in time."""
        model = decision(self.problem, target)
        if model is None:
            self.run.bound(target + 1, "station windows")
            return
        for variable, chip in (model.encode(self._start()) or ()) if self.run.best is not None else ():
            model.native.add_hint(variable, int(chip))  # above the target, so no start, but near
        if self.task.solve(model, seconds=seconds).termination.reason == "infeasible":
            self.run.bound(target + 1, "cpsat", "solver")

    def _whole(self, seconds: float) -> None:
        """The whole problem, within the windows of the incumbent's value and from it."""
        from chipmap.formulations.ring.cpsat import RingCpChoices, build

        run, instance = self.run, self.contraction.instance
        if run.best is None:
            outcome = self.task.solve(build(instance), seconds=seconds)
            if outcome.termination.reason == "infeasible":
                self.task.infeasible(instance)
            return
        upper = run.best.objective
        within = station_windows(self.problem, upper)
        if within is None:
            run.bound(upper + 1, "station windows")  # contradicts the incumbent: raises
            return
        model = build(instance, RingCpChoices(windows=within.pairs(), upper=upper))
        self.task.solve(model, self._start(), seconds)
