"""Why the models of a ring instance have no solution: which labels clash, and what is short, in chips and bytes."""

from __future__ import annotations

from chipmap.explanation import EXPLAIN
from chipmap.heuristics.ring.bounds.simple import skip_connections
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph, flow_graph
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.clashes import SHARE, clashing, labels_of, not_known
from chipmap.methods.ring.at_once import memory, plain_reasons
from chipmap.result import Infeasibility
from chipmap.run import Run
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest

#: Seconds for the programs that look for the least SRAM that would do, and CP-SAT's deterministic seconds for it.
EXPLAIN_SECONDS, SRAM_WORK = 5.0, 5.0
#: Operations up to which the labels are asked of the instance itself, and not of its contraction.
FEW = 100


def reasons(instance: RingInstance, run: Run) -> list[Infeasibility]:
    """The reasons why an infeasible ``instance`` has no mapping, with the labels that CP-SAT proves to contradict each
    other. Where it doesn't, memory takes part if there is a mapping without C4; else none, and the run's notes say
    so."""
    problem = ring_problem(instance)
    if plain := plain_reasons(problem) or under_a_skip(problem, flow_graph(problem)):
        return [one.replace(labels=tuple(sorted({*one.labels, *merged_by(run)}))) for one in plain]
    clash = clashing_labels(instance, run)
    if "C4" in clash or (not clash and _fits_without_memory(instance, run)):
        bound, reached = _sram_by_model(instance, run)
        return [memory(problem, max(bound, problem.sram_bytes + 1), reached, clash)]
    if not clash:
        not_known(run, "mapping")
        return []
    if set(clash) <= {"C0", "C2"} and "C2" in clash:
        count = int(problem.computing.sum())
        text = f"pins ask for a chip that {count} operations can't reach without leaving a chip before it empty"
        short = (count + 1, count, "operations")
        remedies = ("pin to a lower chip", "leave C2 out of constraints")
        what = "operations to fill the chips before a pinned one"
        return [Infeasibility.of("C2", what, short, text, *remedies, labels=clash)]
    text = "can't hold together: pins, forbidden chips or groups contradict the order of the operations"
    remedy = "relax pins, forbidden chips or keep-together groups until a mapping exists"
    return [Infeasibility.of(clash[0], "chips", (1, 0, "mappings"), f"{', '.join(clash)} {text}", remedy, labels=clash)]


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
        Infeasibility.of(
            "C4",
            "SRAM of two chips under a skip connection",
            (need, problem.sram_bytes, "bytes"),
            text,
            *remedies,
            labels=("C1", "C3", "C4"),
        )
    ]


def clashing_labels(instance: RingInstance, run: Run) -> tuple[str, ...]:
    """The labels that CP-SAT proves to contradict each other; () if none are.

    Small instances are asked as the user stated them, others as ``instance``, their contraction. C0 is always there;
    it is left out where no pin, group or forbidden chip makes more of it than a chip for each."""
    from chipmap.formulations.ring.cpsat import RingCpChoices, build

    given = run.instance if isinstance(run.instance, RingInstance) else instance
    asked = given if len(given.graph.operations) <= FEW else instance
    labels = set(labels_of(clashing(run, lambda: build(asked, RingCpChoices(objective="feasible", labels="assume")))))
    if not labels:
        return ()
    labels |= set() if asked is given else merged_by(run)
    pinned = given.pins or given.forbidden or given.together or given.apart
    return tuple(sorted(labels if pinned or labels == {"C0"} else labels - {"C0"}))


def merged_by(run: Run) -> set[str]:
    """The label by which operations are one in the contraction of the run's instance: C1 merges what lies between those
    of a group."""
    given = run.instance
    return {"C1"} if isinstance(given, RingInstance) and given.together and "C1" in given.constraints else set()


def _fits_without_memory(instance: RingInstance, run: Run) -> bool:
    """Whether everything on the first chip breaks nothing but C4: then C4 takes part in every contradiction."""
    everything = RingSolution(instance=instance.name, chips=(0,) * len(instance.graph.operations))
    if run.oracle is not None:  # it may be asked of the user's own instance only
        return False
    return {violation.label for violation in run.check(instance, everything).violations} == {"C4"}


def _sram_by_model(instance: RingInstance, run: Run) -> tuple[int, int | None]:
    """(lower bound, reached value or None) of the least SRAM bytes per chip with which ``instance`` has a mapping.

    A value counts as reached only where it is more than there is, and the checker accepts the mapping with it.
    """
    from chipmap.formulations.ring.cpsat_sram import build

    model, seconds = build(instance), run.deadline.seconds
    request = SolveRequest(
        time_limit=None if seconds == float("inf") else SHARE * seconds,
        work_limit=SRAM_WORK,
        deterministic=True,
        should_stop=lambda: not run.keep_going(),
    )
    outcome = solve_model(model, request)
    bound = 0 if outcome.bound is None else round(outcome.bound)
    if outcome.objective is None or outcome.value_of is None:
        return bound, None
    reached = round(outcome.objective)
    return bound, reached if does(instance, run, reached, model.decode(outcome.value_of)) else None


def does(instance: RingInstance, run: Run, sram: int, mapping: RingSolution) -> bool:
    """Whether ``sram`` bytes are more than there are, and ``mapping`` is valid with them by the checker."""
    had = instance.package.sram_bytes
    if had is None or sram <= had or run.oracle is not None:
        return False
    return run.check(instance.replace(package=instance.package.replace(sram_bytes=sram)), mapping).feasible
