"""The methods of family ``dataflow`` that solve its explicit models: MIP by HiGHS or Gurobi, CP-SAT.

A model is for one choice of degrees. Each choice is solved in turn, the least bound first, with the incumbent's value
as cutoff and, where it has these degrees, as start; a choice whose bound is no better is left out.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

from chipmap.deadline import Stop
from chipmap.family import Model
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.problem import batch_ticks, layer_ticks, pairs_outside, steps
from chipmap.methods.dataflow.cases import Case, cases
from chipmap.methods.dataflow.infeasibility import no_degrees, no_mapping
from chipmap.result import BoundKind, Limit, Termination, integer_bound
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest, ValueOf

Kind = Literal["mip", "cpsat"]
#: Deterministic work per second of the time limit: CP-SAT's and Gurobi's own units, HiGHS's nodes.
WORK_PER_SECOND = {"cpsat": 0.5, "gurobi": 0.5, "highs": 20.0}
#: What a bound on a layer's picoseconds may be above the truth by a solver's arithmetic: absolute, and a share.
NOISE = {"mip": (1e-3, 1e-11), "cpsat": (1e-3, 1e-15)}


def mip(instance: DataflowInstance, run: Run) -> Termination:
    """The MIP at every choice of degrees, by HiGHS or Gurobi."""
    return _all(instance, run, "mip")


def cpsat(instance: DataflowInstance, run: Run) -> Termination:
    """The CP-SAT model at every choice of degrees."""
    return _all(instance, run, "cpsat")


def _all(instance: DataflowInstance, run: Run, kind: Kind) -> Termination:
    from chipmap.heuristics.dataflow.program.lattice import TooWideError  # the reasons are found by the program

    def work() -> None:
        todo = cases(instance)
        if not todo:
            run.infeasible(no_degrees(instance))
            return
        run.bound(todo[0].bound, "compute")
        proved, certain = list[int](), True
        for number, case in enumerate(todo):
            run.checkpoint()
            if run.upper is not None and case.bound >= run.upper:
                proved.append(case.bound)
                continue
            rest = [*proved, *(later.bound for later in todo[number + 1 :])]
            task = ModelTask(instance, run, kind, case, rest, bound_kind(todo))
            proved += task.solve()
            certain = certain and task.model.standing.bounds
        if run.best is not None:
            run.bound(min(proved), kind, bound_kind(todo))
        elif certain:
            no_mapping(instance, [case.problem for case in todo], run)

    return run.attempt(work, TooWideError)


def by_cpsat(case: Case, run: Run, others: list[int]) -> list[int]:
    """The bound that CP-SAT proves for one choice of degrees, the incumbent as start and cutoff; none where nothing
    fits. ``others`` are the bounds of the other choices."""
    return ModelTask(case.problem.instance, run, "cpsat", case, others, "combinatorial").solve()


def bound_kind(todo: list[Case]) -> BoundKind:
    """A bound is the solver's own only with one choice of degrees: else it is the least over several models."""
    return "solver" if len(todo) == 1 else "combinatorial"


class ModelTask:
    """One choice of degrees; ``rest`` are the bounds of the others."""

    def __init__(
        self,
        instance: DataflowInstance,
        run: Run,
        kind: Kind,
        case: Case,
        rest: list[int],
        bounds: BoundKind,
        given: DataflowSolution | None = None,
    ) -> None:
        self.run, self.kind, self.case, self.rest, self.bound_kind = run, kind, case, rest, bounds
        self.upper = run.upper
        self.model = _build(instance, case.problem.degrees, kind, upper=self.upper, given=given)

    def solve(self) -> list[int]:
        """The bound that is proved for these degrees; none where nothing fits."""
        run = self.run
        run.checkpoint()
        encoded = self.model.encode(run.best.solution) if run.best is not None else None
        ask = request(
            run,
            self.kind,
            start=tuple(encoded) if encoded is not None else None,
            on_solution=self._found,
            on_bound=self._proved if self.model.standing.bounds else None,
            should_stop=lambda: not run.keep_going(),
        )
        return self._conclude(solve_model(self.model, ask, run.options.solver))

    def _found(self, value_of: ValueOf, objective: float) -> None:
        self.run.solution(self.model.decode(value_of), self.kind, claimed=objective)

    def _proved(self, bound: float) -> None:
        ticks = min([self._lower(bound), *self.rest])
        if self.run.lower is None or ticks > self.run.lower.value:  # how often a solver repeats itself depends on time
            self.run.bound(ticks, self.kind, self.bound_kind)

    def _lower(self, bound: float) -> int:
        """A solver's bound in whole ticks of the batch.

        For each T5 and T6 that a mapping may have, a layer takes whole picoseconds: so many at least. Where stages
        share out kernels, a step does.
        """
        problem, layers = self.case.problem, list[int]()
        absolute, share = NOISE[self.kind]
        if problem.instance.task.stages == "kernels":
            step = bound / steps(problem)
            return max(self.case.bound, steps(problem) * ceil(step - absolute - share * abs(step)))
        pairs = pairs_outside(problem)
        if pairs is None:
            return max(self.case.bound, integer_bound(bound))
        for pair in pairs:
            layer = layer_ticks(problem, bound, *pair)
            layers.append(batch_ticks(problem, max(0, ceil(layer - absolute - share * abs(layer))), *pair))
        return max(self.case.bound, min(layers))

    def _conclude(self, outcome: Outcome) -> list[int]:
        run, reason = self.run, outcome.termination
        if reason.reason == "infeasible":
            if not self.model.standing.bounds:
                return [self.case.bound]
            return [] if self.upper is None else [self.upper]
        if reason.reason != "optimal":
            run.note("solver", f"{self.kind}: {reason.reason} {reason.detail}".rstrip())
            run.checkpoint()
        if reason.limit != "none":
            raise Stop(_stop(reason.limit))
        usable = self.model.standing.bounds and outcome.bound is not None
        return [self._lower(outcome.bound) if usable and outcome.bound is not None else self.case.bound]


def request(run: Run, kind: Kind, **hooks: Any) -> SolveRequest:
    """What the solver of a model of this kind is asked, with the limits and options of a run."""
    options = run.options
    left = float("inf") if options.deterministic else run.remaining
    return SolveRequest(
        time_limit=None if left == float("inf") else left,
        work_limit=_work(run, kind) if options.deterministic else None,
        gap=options.gap,
        threads=options.threads,
        seed=options.seed,
        deterministic=options.deterministic,
        native=options.native,
        log_file=run.log_file,
        **hooks,
    )


def _work(run: Run, kind: Kind) -> float | None:
    """The deterministic work limit in the solver's unit; None without any limit."""
    options = run.options
    name = options.solver or ("cpsat" if kind == "cpsat" else "highs")
    return None if options.time_limit is None else max(1.0, WORK_PER_SECOND[name] * options.time_limit)


def _build(instance: DataflowInstance, degrees: Degrees, kind: Kind, **choices: Any) -> Model:
    """The model of ``instance`` where no other degrees are allowed."""
    instance = instance.replace(task=instance.task.replace(degrees=degrees))
    if kind == "cpsat":
        from chipmap.formulations.dataflow import cpsat as formulation
    else:
        from chipmap.formulations.dataflow import mip as formulation  # type: ignore[no-redef]
    model: Model = formulation.build(instance, choices)
    return model


def _stop(limit: Limit) -> Any:
    return limit if limit in ("time", "interrupted", "gap") else "time"
