"""The methods of family ``wafer`` that solve its explicit models.

On a small fabric the model holds every sizing and the time as a variable: its bounds and its proofs are the instance's.
On a large one these lists are too long: the models are asked for floorplans at target times above the area bound, with
one sizing per Pareto-minimal box, and give no bound but that one.
"""

from __future__ import annotations

from typing import Any, Literal

from chipmap.family import Model
from chipmap.formulations.wafer.options import least_time
from chipmap.heuristics.wafer.bounds.single_kernel import single_kernels
from chipmap.instances.wafer.instance import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, wafer_problem
from chipmap.methods.model_solve import OWN, Finds, Limits, solve_whole, solve_within
from chipmap.methods.wafer.neighbourhoods import SOURCE, search_neighbourhoods
from chipmap.methods.wafer.reasons import SMALL_SIDE, no_floorplan
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run

#: Target times on large fabrics: this share above the area bound, from the easiest to the hardest.
SHARES = (0.5, 0.25, 0.12, 0.06, 0.03)
#: Share of the remaining time for one target time.
SLICE = 0.3


def cpsat(instance: WaferInstance, run: Run) -> Termination:
    """CP-SAT: the exact model of a small fabric; of a large one target times, then neighbourhoods."""

    def work() -> None:
        """A small fabric's floorplan by its model; else the search of neighbourhoods, from a start."""
        problem = wafer_problem(instance)
        if solve_floorplans(problem, run, "cpsat"):
            return
        if run.best is not None:
            assert isinstance(run.best.solution, WaferSolution)

            def found(better: WaferSolution) -> None:
                run.solution(better, SOURCE)
                run.checkpoint()

            tally = search_neighbourhoods(run, problem, run.best.solution, run.deadline, found)
            run.note("search", f"{SOURCE}: {tally}", **vars(tally))
        run.checkpoint()

    return run.attempt(work)


def mip(instance: WaferInstance, run: Run) -> Termination:
    """The MIP, by HiGHS or Gurobi: the exact model of a small fabric; target times on a large one."""

    def work() -> None:
        solve_floorplans(wafer_problem(instance), run, "mip")

    return run.attempt(work)


def solve_floorplans(problem: WaferProblem, run: Run, kind: Literal["mip", "cpsat"]) -> bool:
    """The area's bound, then the floorplan as a whole or by target times; whether the fabric is small enough for it."""
    area(problem, run)
    run.checkpoint()
    if small(problem):
        exactly(problem, run, kind)
    else:
        _targets(problem, run, kind)
    return small(problem)


def area(problem: WaferProblem, run: Run) -> None:
    """Report the area's bound."""
    tau = least_time(problem)
    if tau is not None:
        run.bound(problem.instance.weights.time * tau, "area")


def small(problem: WaferProblem) -> bool:
    """Whether the model of the whole fabric holds every sizing."""
    return max(problem.width, problem.height) <= SMALL_SIDE


def _build(problem: WaferProblem, kind: Literal["mip", "cpsat"], **choices: Any) -> Model:
    if kind == "cpsat":
        from chipmap.formulations.wafer import cpsat as formulation
    else:
        from chipmap.formulations.wafer import mip as formulation  # type: ignore[no-redef]
    model: Model = formulation.build(problem.instance, choices)
    return model


def exactly(
    problem: WaferProblem, run: Run, kind: Literal["mip", "cpsat"], limits: Limits = OWN, solver: str | None = None
) -> None:
    """Solve the model of all sizings, from the run's best floorplan and below its value."""
    model = _build(problem, kind, upper=run.upper)
    solve_whole(run, model, kind, lambda: _reasons(problem, run), limits, solver)


def at_longest(problem: WaferProblem, run: Run, limits: Limits) -> WaferSolution | bool:
    """A floorplan at the longest time by CP-SAT, in boxes of the Pareto fronts; else whether there may be one.

    Without C4 smaller boxes are as good as larger ones, so that a proof holds for the instance."""
    model = _build(problem, "cpsat", tau=problem.longest, options="front", symmetry="none")
    outcome = solve_within(run, model, None, None, limits, "cpsat")
    if outcome.value_of is None:
        return outcome.termination.reason != "infeasible"
    solution: WaferSolution = model.decode(outcome.value_of)
    return solution


def _targets(problem: WaferProblem, run: Run, kind: Literal["mip", "cpsat"]) -> None:
    """Floorplans at target times nearer and nearer to the area bound."""
    least = least_time(problem)
    if least is None:
        run.infeasible(*_reasons(problem, run))
        return
    for share in SHARES:
        run.checkpoint()
        tau = int(least * (1 + share))
        if run.upper is not None and problem.instance.weights.time * tau >= run.upper:
            continue
        limit = run.options.time_limit if run.options.deterministic else run.remaining
        seconds = None if limit is None or limit == float("inf") else SLICE * limit
        model = _build(problem, kind, tau=tau, options="front", symmetry="none")
        solve_within(run, model, Finds(kind), run.best.solution if run.best else None, Limits(seconds=seconds))


def _reasons(problem: WaferProblem, run: Run) -> list[Infeasibility]:
    """Why there is no floorplan: kernels that have no box, or no room beside each other."""
    _, reasons = single_kernels(problem, run.deadline)
    return list(reasons) or [no_floorplan(problem, run)]
