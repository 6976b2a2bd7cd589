"""What a ring instance without a mapping lacks: bytes of SRAM, chips, or pins that agree with the order of the data."""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.deadline import Deadline, Stop
from chipmap.explanation import Statement
from chipmap.heuristics.ring.bounds.shortages import least_chips, least_sram
from chipmap.heuristics.ring.bounds.simple import skip_connections
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.precedence import flow_reachable, reachable
from chipmap.instances.ring.problem import RingProblem, loads, ring_problem
from chipmap.methods.ring.explain.changes import chip_trial, sram_trial
from chipmap.methods.ring.explain.reasons import fullest, statement
from chipmap.methods.ring.explain.solved import Case, Trial, Tried
from chipmap.methods.ring.explain.text import listed, name, plural, size

#: Contradicting pairs of pins that are named.
PAIRS = 3


def memory(case: Case) -> Iterator[Statement]:
    """The bounds on memory that the SRAM is too small for: one operation, all on average, all under a skip."""
    problem = case.problem
    if not problem.has("C4"):
        return
    limit, weights = problem.sram_bytes, problem.weight_bytes
    heavy = [v for v in range(problem.n) if int(weights[v]) > limit]
    for v in sorted(heavy, key=lambda v: -int(weights[v]))[:1]:
        more = f" (and {plural(len(heavy) - 1, 'more operation')} too)" if len(heavy) > 1 else ""
        short = int(weights[v]) - limit
        yield statement(
            "short",
            f"Operation {case.name(v)} fits on no chip: {size(int(weights[v]))} of weights, {size(limit)} of SRAM, "
            f"{size(short)} short{more}",
            "C4",
            operation=case.name(v),
            weight_bytes=int(weights[v]),
            sram_bytes=limit,
            short_bytes=short,
        )
    total = int(weights.sum())
    if total > limit * problem.chips:
        yield statement(
            "short",
            f"All weights are {size(total)}, all {plural(problem.chips, 'chip')} together hold "
            f"{size(limit * problem.chips)}: {size(total - limit * problem.chips)} short",
            "C4",
            weight_bytes=total,
            short_bytes=total - limit * problem.chips,
        )
    if problem.has("C1") and problem.has("C3"):
        under = max(skip_connections(problem, case.graph), key=lambda skip: skip.weight_bytes, default=None)
        if under is not None and under.weight_bytes > 2 * limit:
            ends = f"{case.name(under.producer)} -> {case.name(under.reader)}"
            yield statement(
                "short",
                f"Everything under the skip connection {ends} lives on two chips (C3): "
                f"{plural(under.operations, 'operation')} with {size(under.weight_bytes)} of weights, two chips hold "
                f"{size(2 * limit)}: {size(under.weight_bytes - 2 * limit)} short",
                "C3",
                producer=case.name(under.producer),
                reader=case.name(under.reader),
                weight_bytes=under.weight_bytes,
                short_bytes=under.weight_bytes - 2 * limit,
            )


def needs(case: Case, deadline: Deadline) -> tuple[list[Statement], list[Trial]]:
    """The least SRAM and the fewest chips with which the instance has a mapping, exactly, and these as changes."""
    said: list[Statement] = []
    trials: list[Trial] = []
    if not case.problem.has("C4") or case.programs is None or case.ideals is None:
        return said, trials
    try:
        found = least_sram(case.programs, case.ideals, deadline.share(0.2))
        if found is not None:
            said += _least(case, *found)
            trials.append(_started(sram_trial(case.instance, found[0]), case.lift(found[1])))
        enough = least_chips(case.programs, case.ideals, deadline.share(0.2)) if found is not None else None
    except Stop:
        return said, trials
    if isinstance(enough, tuple):
        said.append(
            statement(
                "least",
                f"With this SRAM it takes at least {plural(enough[0], 'chip')} (proved)",
                "C4",
                chips=case.problem.chips,
                least_chips=enough[0],
            )
        )
        trials.append(_started(chip_trial(case.instance, enough[0]), case.lift(enough[1])))
    elif enough is False:
        said.append(statement("least", "With this SRAM no number of chips does (proved)", "C4"))
    return said, trials


def with_chips(tried: Tried, deadline: Deadline) -> Trial | None:
    """The fewest chips with which a changed instance, still without a mapping, has one; None if none are found."""
    case = Case(tried.solved.instance)
    if case.programs is None or case.ideals is None:
        return None
    try:
        enough = least_chips(case.programs, case.ideals, deadline.share(0.2))
    except Stop:
        return None
    if not isinstance(enough, tuple):
        return None
    more = _started(chip_trial(case.instance, enough[0]), case.lift(enough[1]))
    return Trial(f"{tried.trial.kind} and chips", f"{tried.trial.what}, {more.what}", more.make, start=more.start)


def _least(case: Case, needed: int, chips: tuple[int, ...]) -> Iterator[Statement]:
    limit = case.problem.sram_bytes
    yield statement(
        "least",
        f"The least SRAM that does is {size(needed)} per chip (proved), {size(needed - limit)} more than there is",
        "C4",
        least_bytes=needed,
        sram_bytes=limit,
        short_bytes=needed - limit,
    )
    yield fullest(case.problem, loads(case.problem, chips), "In a mapping with that least SRAM")


def _started(trial: Trial, start: RingSolution) -> Trial:
    return Trial(trial.kind, trial.what, trial.make, trial.setting, start)


def sites(instance: RingInstance) -> Iterator[Statement]:
    """Pins that contradict the order of the data (C1), or that pull a skip connection over three chips (C3)."""
    problem = ring_problem(instance)
    fixed = {v: next(iter(chips)) for v, chips in enumerate(problem.allowed) if chips is not None and len(chips) == 1}
    if problem.has("C1"):
        below = reachable(problem)
        pairs = [(u, v) for u in fixed for v in fixed if u != v and below[u, v] and fixed[u] > fixed[v]]
        for u, v in pairs[:PAIRS]:
            yield statement(
                "pins",
                f"{name(problem, v)} needs the data of {name(problem, u)} but is pinned to chip {fixed[v]}, before "
                f"chip {fixed[u]} where {name(problem, u)} is pinned",
                "C1",
                operations=[name(problem, u), name(problem, v)],
            )
        if problem.has("C3"):
            yield from _triangles(problem, fixed)


def _triangles(problem: RingProblem, fixed: dict[int, int]) -> Iterator[Statement]:
    below = flow_reachable(problem)
    flows = [(u, v) for u, v in problem.flows.tolist() if u in fixed and v in fixed]
    bad = [
        (u, w, v)
        for u, v in flows
        for w in fixed
        if w not in (u, v) and below[u, w] and below[w, v] and fixed[u] < fixed[w] < fixed[v]
    ]
    for u, w, v in bad[:PAIRS]:
        names = [name(problem, x) for x in (u, w, v)]
        yield statement(
            "pins",
            f"{names[0]} feeds {names[2]} directly and by way of {names[1]}, so the three can't be on three chips "
            f"({fixed[u]}, {fixed[w]} and {fixed[v]}: {listed(names)})",
            "C3",
            operations=names,
        )
