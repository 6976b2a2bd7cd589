"""The methods of family ``wafer`` that solve its explicit models.

On a small fabric the model holds every sizing and the time as a variable: its bounds and its proofs are the instance's.
On a large one these lists are too long: the models are asked for floorplans at target times above the area bound, with
one sizing per Pareto-minimal box, and give no bound but that one.
"""

from __future__ import annotations

from typing import Any, Literal

from chipmap.deadline import Stop
from chipmap.family import Model
from chipmap.formulations.wafer.options import least_time
from chipmap.heuristics.wafer.bounds.single_kernel import alone, apart
from chipmap.instances.wafer.instance import WaferInstance
from chipmap.instances.wafer.problem import WaferProblem, wafer_problem
from chipmap.result import Infeasibility, Limit, Termination, integer_bound
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest, ValueOf

#: Fabrics with both sides up to this many tiles are solved by models with every sizing.
SMALL_SIDE = 40
#: Target times on large fabrics: this share above the area bound, from the easiest to the hardest.
SHARES = (0.5, 0.25, 0.12, 0.06, 0.03)
#: Deterministic work per second of the time limit: CP-SAT's and Gurobi's own units, HiGHS's nodes.
WORK_PER_SECOND = {"cpsat": 0.5, "gurobi": 0.5, "highs": 20.0}
#: Share of the remaining time for one target time.
SLICE = 0.3


def cpsat(instance: WaferInstance, run: Run) -> Termination:
    """CP-SAT: the exact model of a small fabric; target times, then windows of the best floorplan, of a large one."""

    def work() -> None:
        """The floorplan as a whole or by target times, by the size of the fabric."""
        problem = wafer_problem(instance)
        _area(problem, run)
        if _small(problem):
            _exactly(problem, run, "cpsat")
            return
        _targets(problem, run, "cpsat")
        if run.best is not None and not run.options.deterministic:
            from chipmap.methods.wafer.neighbourhoods import windows

            windows(instance, run)
        run.checkpoint()

    return run.attempt(work)


def mip(instance: WaferInstance, run: Run) -> Termination:
    """The MIP, by HiGHS or Gurobi: the exact model of a small fabric; target times on a large one."""

    def work() -> None:
        problem = wafer_problem(instance)
        _area(problem, run)
        if _small(problem):
            _exactly(problem, run, "mip")
        else:
            _targets(problem, run, "mip")

    return run.attempt(work)


def _small(problem: WaferProblem) -> bool:
    return max(problem.width, problem.height) <= SMALL_SIDE


def _area(problem: WaferProblem, run: Run) -> None:
    tau = least_time(problem)
    if tau is not None:
        run.bound(problem.instance.weights.time * tau, "area")
    run.checkpoint()


def _build(problem: WaferProblem, kind: Literal["mip", "cpsat"], **choices: Any) -> Model:
    if kind == "cpsat":
        from chipmap.formulations.wafer import cpsat as formulation
    else:
        from chipmap.formulations.wafer import mip as formulation  # type: ignore[no-redef]
    model: Model = formulation.build(problem.instance, choices)
    return model


def _exactly(problem: WaferProblem, run: Run, kind: Literal["mip", "cpsat"]) -> None:
    """Solve the model of all sizings, from the run's best floorplan and below its value."""
    model = _build(problem, kind, upper=run.upper)
    run.checkpoint()
    outcome = _solve(model, run, kind, None)
    reason = outcome.termination
    if reason.reason == "infeasible" and model.standing.bounds:
        run.infeasible(*_reasons(problem, run))
    elif reason.reason != "optimal":
        run.note("solver", f"{kind}: {reason.reason} {reason.detail}".rstrip())
        run.checkpoint()
    if reason.limit != "none":
        raise Stop(_stop(reason.limit))


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
        _solve(_build(problem, kind, tau=tau, options="front", symmetry="none"), run, kind, seconds)


def _solve(model: Model, run: Run, kind: Literal["mip", "cpsat"], seconds: float | None) -> Outcome:
    """Solve ``model`` for ``seconds`` at most (None: the time left), reporting as the solver goes."""
    options = run.options

    def found(value_of: ValueOf, objective: float) -> None:
        run.solution(model.decode(value_of), kind, claimed=objective)

    def proved(bound: float) -> None:
        run.bound(round(bound) if kind == "cpsat" else integer_bound(bound), kind, "solver")

    left = run.remaining if seconds is None or options.deterministic else min(seconds, run.remaining)
    encoded = model.encode(run.best.solution) if run.best is not None else None
    request = SolveRequest(
        time_limit=None if left == float("inf") else left,
        work_limit=_work(run, kind, seconds) if options.deterministic else None,
        gap=options.gap,
        threads=options.threads,
        seed=options.seed,
        deterministic=options.deterministic,
        start=tuple(encoded) if encoded is not None else None,
        on_solution=found,
        on_bound=proved if model.standing.bounds else None,
        should_stop=lambda: not run.keep_going(),
        native=options.native,
        log_file=run.log_file,
    )
    outcome = solve_model(model, request, options.solver)
    if encoded is not None:
        note = f"{kind}: warm start {'' if outcome.start_accepted else 'not '}accepted"
        run.note("start", note)
    return outcome


def _work(run: Run, kind: str, seconds: float | None) -> float | None:
    """The deterministic work limit in the solver's unit; None without any limit."""
    limit = seconds if seconds is not None else run.options.time_limit
    name = run.options.solver or ("cpsat" if kind == "cpsat" else "highs")
    return None if limit is None else max(1.0, WORK_PER_SECOND[name] * limit)


def _reasons(problem: WaferProblem, run: Run) -> list[Infeasibility]:
    """Why there is no floorplan: kernels that have no box alone, or no room beside each other."""
    _, reasons = alone(problem, run.deadline)
    return list(reasons) or [apart(problem)]


def _stop(limit: Limit) -> Any:
    return limit if limit in ("time", "interrupted", "gap") else "time"
