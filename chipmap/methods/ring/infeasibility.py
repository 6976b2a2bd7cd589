"""Why the models of a ring instance have no solution: which labels clash, and what is short, in chips and bytes."""

from __future__ import annotations

from chipmap.explanation import EXPLAIN
from chipmap.heuristics.ring.bounds.simple import skip_connections
from chipmap.heuristics.ring.programs.ideals import FlowGraph, flow_graph
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.at_once import memory, plain_reasons, reason
from chipmap.result import Infeasibility
from chipmap.solvers import infeasible_labels, solve_model
from chipmap.solvers.outcome import SolveRequest

#: Seconds for the labels that clash, and again for the least SRAM that would do.
EXPLAIN_SECONDS = 5.0


def reasons(instance: RingInstance, seconds: float) -> list[Infeasibility]:
    """The reasons why an infeasible ``instance`` has no mapping, found within about twice ``seconds``."""
    problem = ring_problem(instance)
    if plain := plain_reasons(problem) or under_a_skip(problem, flow_graph(problem)):
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


def under_a_skip(problem: RingProblem, graph: FlowGraph) -> list[Infeasibility]:
    """The skip connection with more weights under it than two chips hold, as C1 and C3 leave it no more chips."""
    if not all(problem.has(label) for label in ("C1", "C3", "C4")):
        return []
    skip = max(skip_connections(problem, graph), key=lambda one: one.weight_bytes, default=None)
    if skip is None or skip.weight_bytes <= 2 * problem.sram_bytes:
        return []
    need, operations = -(-skip.weight_bytes // 2), problem.instance.graph.operations
    ends = f"{operations[skip.producer].name!r} to {operations[skip.reader].name!r}"
    text = (
        f"all {skip.operations} operations under the skip connection from {ends} must share two chips (C3); their "
        f"weights are {skip.weight_bytes:,} bytes, two chips hold {2 * problem.sram_bytes:,}; more chips don't help"
    )
    remedies = (
        f"an SRAM of at least {need:,} bytes, maybe more: {EXPLAIN}",
        "fewer bytes per word",
        "leave C3 out of constraints, where the package can route around chips",
    )
    return [
        reason("C4", "SRAM of two chips under a skip connection", (need, problem.sram_bytes, "bytes"), text, *remedies)
    ]


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
