"""EDP beyond CP-SAT's 64 bits: the least energy within a limit on latency, for one limit after the other.

Let every schedule with T1 <= L have T2 >= e. One that is better than the best product p has T1 <= (p - 1) / e, the next
limit. It falls in every round, as the round's own schedule has a product of L · e at most. No model holds a product, so
that nothing passes 64 bits.
"""

from __future__ import annotations

from dataclasses import replace

from chipmap.family import Scope
from chipmap.heuristics.multimodel.bounds import least_energy, least_time
from chipmap.instances.multimodel.problem import MultiProblem
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Finds, Limits, conclude, solve_within
from chipmap.methods.multimodel.reasons import clash

SOURCE = "cpsat within latencies"


def model_by_energies(problem: MultiProblem, turn: Turn) -> None:
    """The least EDP by CP-SAT models of energy; what each round proves is a bound."""
    from chipmap.formulations.multimodel.cpsat import build

    run, instance = turn.run, problem.instance
    limit, energy, time = problem.most_time, max(1, least_energy(problem)), least_time(problem)
    if instance.task.latency_limit_ns is not None:
        limit = min(limit, instance.task.latency_limit_ns)
    while True:
        turn.deadline.check()
        if run.best is not None:
            terms = run.best.certificate.terms
            limit = min(limit, (terms["T1"] * terms["T2"] - 1) // energy)
        if run.upper is not None and limit < time:
            return run.bound(run.upper, SOURCE)
        task = instance.task.replace(objective="energy", latency_limit_ns=limit)
        model = replace(build(instance.replace(task=task)), scope=Scope.QUESTION)
        outcome = solve_within(run, model, Finds(SOURCE), limits=Limits(deadline=turn.deadline))
        if outcome.termination.reason == "infeasible":
            return run.infeasible(*clash(problem, run)) if run.upper is None else run.bound(run.upper, SOURCE)
        if outcome.termination.reason != "optimal" or outcome.bound is None or run.upper is None:
            return conclude(run, outcome, SOURCE)
        energy = max(energy, round(outcome.bound))
        run.bound(min(run.upper, problem.objective(time, energy)), SOURCE)
