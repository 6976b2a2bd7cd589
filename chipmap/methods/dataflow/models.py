"""The methods of family ``dataflow`` that solve its explicit models: MIP by HiGHS or Gurobi, CP-SAT.

A model is for one choice of degrees and micro-batch. Each is solved in turn, the least bound first, with the incumbent
as cutoff and, where it has these degrees, as start; a choice whose bound is no better is left out.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any, Literal

from chipmap.family import Model
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.instances.dataflow.batch_time import batch_ticks, layer_ticks, steps, sums_outside
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.pairs import parts_of_time
from chipmap.methods.dataflow import unequal
from chipmap.methods.dataflow.cases import Choices, DegreesCase, least_demanding, solve_each
from chipmap.methods.dataflow.infeasibility import no_degrees, no_mapping
from chipmap.methods.model_solve import Finds, conclude, solve_within
from chipmap.result import BoundKind, Termination, integer_bound
from chipmap.run import Run

Kind = Literal["mip", "cpsat"]
#: What a bound on a layer's picoseconds may be above the truth by a solver's arithmetic: absolute, and a share.
NOISE = {"mip": (1e-3, 1e-11), "cpsat": (1e-3, 1e-15)}


def mip(instance: DataflowInstance, run: Run) -> Termination:
    """The MIP at every choice of degrees, by HiGHS or Gurobi."""
    if instance.system.others:
        return unequal.by_model(instance, run, mip, "mip")
    return _all(instance, run, "mip")


def cpsat(instance: DataflowInstance, run: Run) -> Termination:
    """The CP-SAT model at every choice of degrees."""
    if instance.system.others:
        return unequal.by_model(instance, run, cpsat, "cpsat")
    return _all(instance, run, "cpsat")


def _all(instance: DataflowInstance, run: Run, kind: Kind) -> Termination:
    def work() -> None:
        """Each choice of degrees that may be better than the incumbent, by its model."""
        todo, certain = Choices(instance), list[bool]()
        if todo.least is None:
            run.infeasible(no_degrees(instance))
            return
        alone = len(todo) == 1

        def solve(case: DegreesCase, others: list[int], _: int) -> list[int]:
            run.bound(min([case.bound, *others]), "kernels one by one")
            model = build(case, kind, upper=run.upper)
            certain.append(model.standing.bounds)
            return solve_case(case, model, kind, run, others, bound_kind())

        def bound_kind() -> BoundKind:
            # a bound is the solver's own only with one choice of degrees: else it is the least over several models
            return "solver" if alone and not todo.left else "combinatorial"

        proved = solve_each(todo, run, solve)
        if proved:  # a bound is all that is known of a choice that wasn't proved to be without a mapping
            run.bound(min(proved), kind, bound_kind())
        elif all(certain) and not todo.left:
            no_mapping(instance, least_demanding(instance), run)

    return run.attempt(work, TooWideError)


def build(case: DegreesCase, kind: Kind, **choices: Any) -> Model:
    """The model of a choice of degrees and micro-batch."""
    instance = case.problem.instance
    instance = instance.replace(task=instance.task.replace(degrees=case.problem.degrees))
    if kind == "cpsat":
        from chipmap.formulations.dataflow import cpsat as formulation
    else:
        from chipmap.formulations.dataflow import mip as formulation  # type: ignore[no-redef]
    model: Model = formulation.build(instance, choices)
    return model


def by_cpsat(case: DegreesCase, run: Run, others: list[int], given: DataflowSolution | None = None) -> list[int]:
    """The bound that CP-SAT proves for one choice of degrees, the incumbent as start and cutoff; none where nothing
    fits. ``others`` are the bounds of the other choices; schemes and stages are those of ``given``, where one is."""
    model = build(case, "cpsat", upper=run.upper, given=given)
    return solve_case(case, model, "cpsat", run, others, "combinatorial")


def solve_case(
    case: DegreesCase, model: Model, kind: Kind, run: Run, others: list[int], bound_kind: BoundKind
) -> list[int]:
    """Solve the model of one choice of degrees, whose cutoff is the incumbent's value now.

    Returns the bound that is proved for these degrees; none where nothing fits. ``others`` are the bounds of the other
    choices.
    """
    run.checkpoint()
    upper, bounds = run.upper, model.standing.bounds
    finds = Finds(kind, ticks=lambda bound, _: min([_lower(case, kind, bound), *others]), kind=bound_kind)
    outcome = solve_within(run, model, finds, run.best.solution if run.best is not None else None)
    if outcome.termination.reason == "infeasible":
        if not bounds:
            return [case.bound]
        return [] if upper is None else [upper]
    conclude(run, outcome, kind)
    return [_lower(case, kind, outcome.bound) if bounds and outcome.bound is not None else case.bound]


def _lower(case: DegreesCase, kind: Kind, bound: float) -> int:
    """A solver's bound in whole ticks of the batch.

    For all that a mapping may have beside T4, a layer takes whole parts of a picosecond, so many at least. Where stages
    share out kernels, a step does.
    """
    problem, layers = case.problem, list[int]()
    absolute, share = NOISE[kind]
    if problem.instance.task.stages == "kernels":
        step = bound / steps(problem)
        return max(case.bound, steps(problem) * ceil(step - absolute - share * abs(step)))
    sums, parts = sums_outside(problem), parts_of_time(problem)
    if sums is None:
        return max(case.bound, integer_bound(bound))
    for beside in sums:
        layer = layer_ticks(problem, bound, *beside)
        least = Fraction(max(0, ceil(parts * (layer - absolute - share * abs(layer)))), parts)
        layers.append(batch_ticks(problem, least, *beside))
    return max(case.bound, min(layers))
