"""Why the models of a ring instance have no solution: which labels clash, and what is short, in chips and bytes."""

from __future__ import annotations

from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.result import Infeasibility
from chipmap.solvers import infeasible_labels, solve_model
from chipmap.solvers.outcome import SolveRequest

#: Seconds for the labels that clash, and again for the least SRAM that would do.
EXPLAIN_SECONDS = 5.0


def reasons(instance: RingInstance, seconds: float) -> list[Infeasibility]:
    """The reasons why an infeasible ``instance`` has no mapping, found within about twice ``seconds``."""
    problem = ring_problem(instance)
    shut = [v for v, chips in enumerate(problem.allowed) if chips is not None and not chips]
    if shut:
        remedy = "remove one of the pins or groups that name it"
        text = "pins, forbidden chips and keep-together groups leave no chip for"
        names = [problem.instance.graph.operations[v].name for v in shut]
        return [_reason("C0", f"chips for {name}", (1, 0, "chips"), f"{text} {name}", remedy) for name in names]
    if problem.has("C4") and problem.least_weights > problem.sram_bytes:
        return [memory(problem, 0, None)]
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
        return [_reason("C2", "operations to fill the chips before a pinned one", short, text, *remedies)]
    text = "can't hold together: pins, forbidden chips or groups contradict the order of the operations"
    remedy = "relax pins, forbidden chips or keep-together groups until a mapping exists"
    return [_reason(clash[0], "chips", (1, 0, "mappings"), f"{', '.join(clash)} {text}", remedy)]


def _reason(label: str, resource: str, short: tuple[int, int, str], message: str, *remedies: str) -> Infeasibility:
    """A reason; ``short`` says the demand, the limit and their unit."""
    demand, limit, unit = short
    return Infeasibility(
        label=label, resource=resource, demand=demand, limit=limit, unit=unit, message=message, remedies=remedies
    )


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


def memory(problem: RingProblem, demand: int, reached: int | None) -> Infeasibility:
    """C4 is to blame: some chip needs at least ``demand`` bytes (or more, for weights alone).

    ``reached`` bytes are known to do (None: not known).
    """
    instance, limit = problem.instance, problem.sram_bytes
    demand = max(demand, problem.least_weights)
    total, chips = int(problem.floor_bytes.sum()), problem.chips
    heaviest = int(problem.alone_bytes.argmax())
    remedies = [] if reached is None else [f"{reached:,} bytes do: --set package.sram_bytes={reached}"]
    remedies += ["more chips, if no single operation is too large: --set package.chips=N", "fewer bytes per word"]
    text = (
        f"no mapping on {chips} chips fits {limit:,} bytes of SRAM: the weights are "
        f"{total:,} bytes in all ({-(-total // chips):,} per chip), the largest operation "
        f"({instance.graph.operations[heaviest].name}) holds {int(problem.alone_bytes[heaviest]):,}, and some "
        f"chip needs at least {demand:,}"
    )
    return _reason("C4", f"SRAM of each of {chips} chips", (demand, limit, "bytes"), text, *remedies)
