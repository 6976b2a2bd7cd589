"""Why the models of a ring instance have no solution: which labels clash, and what is short, in chips and bytes."""

from __future__ import annotations

from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring.at_once import memory, plain_reasons, reason
from chipmap.result import Infeasibility
from chipmap.solvers import infeasible_labels, solve_model
from chipmap.solvers.outcome import SolveRequest

#: Seconds for the labels that clash, and again for the least SRAM that would do.
EXPLAIN_SECONDS = 5.0


def reasons(instance: RingInstance, seconds: float) -> list[Infeasibility]:
    """The reasons why an infeasible ``instance`` has no mapping, found within about twice ``seconds``."""
    problem = ring_problem(instance)
    if plain := plain_reasons(problem):
        return plain
    limit = min(EXPLAIN_SECONDS, max(1.0, seconds))
    clash = sorted({label[:2].upper() for label in _clashing(instance, limit)}) or ["C0", *instance.constraints]
    if "C4" in clash:
        bound, reached = _sram_by_model(instance, limit)
        return [memory(problem, max(bound, problem.sram_bytes + 1), reached)]
    if clash == ["C2"]:
        count = int(problem.computing.sum())
        text = f"pins ask for a chip that {count} operations can't reach without leaving a chip before it empty"
        short = (count + 1, count, "operations")
        remedies = ("pin to a lower chip", "leave C2 out of constraints")
        return [reason("C2", "operations to fill the chips before a pinned one", short, text, *remedies)]
    text = "can't hold together: pins, forbidden chips or groups contradict the order of the operations"
    remedy = "relax pins, forbidden chips or keep-together groups until a mapping exists"
    return [reason(clash[0], "chips", (1, 0, "mappings"), f"{', '.join(clash)} {text}", remedy)]


def _clashing(instance: RingInstance, seconds: float) -> tuple[str, ...]:
    from chipmap.formulations.ring.cpsat import RingCpChoices, build

    model = build(instance, RingCpChoices(objective="feasible", labels="assume"))
    return infeasible_labels(model, SolveRequest(time_limit=seconds))


def _sram_by_model(instance: RingInstance, seconds: float) -> tuple[int, int | None]:
    """(lower bound, reached value or None) of the least SRAM bytes per chip with which ``instance`` has a mapping."""
    from chipmap.formulations.ring.cpsat_sram import build

    outcome = solve_model(build(instance), SolveRequest(time_limit=seconds))
    bound = 0 if outcome.bound is None else round(outcome.bound)
    return bound, None if outcome.objective is None else round(outcome.objective)
