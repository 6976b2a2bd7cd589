"""What a ring instance without a mapping lacks: bytes of SRAM, chips, or pins that agree with the order of the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chipmap.deadline import Deadline, Stop
from chipmap.explaining.driver import statement
from chipmap.explaining.ring.changes import chip_trial, sram_trial
from chipmap.explaining.ring.reasons import fullest
from chipmap.explaining.ring.solved import ExplainedInstance, RingTrial, Tried
from chipmap.explanation import Statement
from chipmap.heuristics.ring.bounds.shortages import least_chips, least_sram
from chipmap.heuristics.ring.bounds.simple import skip_connections
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.precedence import flow_reachable, reachable
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring.text import name
from chipmap.records import counted, listed
from chipmap.records.quantities import in_bytes

#: Contradicting pairs of pins that are named.
PAIRS = 3


def memory(case: ExplainedInstance) -> Iterator[Statement]:
    """The bounds on memory that the SRAM is too small for: one operation, all on average, all under a skip."""
    problem = case.problem
    if not problem.has("C4"):
        return
    limit, weights = problem.sram_bytes, problem.alone_bytes
    heavy = [v for v in range(problem.n) if int(weights[v]) > limit]
    for v in sorted(heavy, key=lambda v: -int(weights[v]))[:1]:
        more = f" (and {counted(len(heavy) - 1, 'more operation')} too)" if len(heavy) > 1 else ""
        weight, short = int(weights[v]), int(weights[v]) - limit
        text = f"Operation {case.name(v)} fits on no chip: {in_bytes(weight)} of weights, {in_bytes(limit)} of SRAM, "
        figures = {"weight_bytes": weight, "sram_bytes": limit, "short_bytes": short}
        yield statement("short", f"{text}{in_bytes(short)} short{more}", "C4", operation=case.name(v), **figures)
    total, room = int(problem.floor_bytes.sum()), limit * problem.chips
    if total > room:
        text = (
            f"All weights are {in_bytes(total)}, all {counted(problem.chips, 'chip')} together hold {in_bytes(room)}: "
        )
        figures = {"weight_bytes": total, "short_bytes": total - room}
        yield statement("short", f"{text}{in_bytes(total - room)} short", "C4", **figures)
    if problem.has("C1") and problem.has("C3"):
        under = max(skip_connections(problem, case.graph), key=lambda skip: skip.weight_bytes, default=None)
        if under is not None and under.weight_bytes > 2 * limit:
            ends, short = (case.name(under.producer), case.name(under.reader)), under.weight_bytes - 2 * limit
            text = (
                f"Everything under the skip connection {' -> '.join(ends)} lives on two chips (C3): "
                f"{counted(under.operations, 'operation')} with {in_bytes(under.weight_bytes)} of weights, two chips "
                f"hold {in_bytes(2 * limit)}: {in_bytes(short)} short"
            )
            figures = {"weight_bytes": under.weight_bytes, "short_bytes": short}
            yield statement("short", text, "C3", producer=ends[0], reader=ends[1], **figures)


def needs(case: ExplainedInstance, deadline: Deadline) -> tuple[list[Statement], list[RingTrial]]:
    """The least SRAM and the fewest chips with which the instance has a mapping, exactly, and these as changes."""
    said: list[Statement] = []
    trials: list[RingTrial] = []
    if not case.problem.has("C4") or case.programs is None or case.ideals is None:
        return said, trials
    try:
        found = least_sram(case.programs, case.ideals, deadline.share(0.2))
        if found is not None:
            said += _least(case, *found)
            trials.append(replace(sram_trial(case.instance, found[0]), start=case.lift(found[1])))
        enough = least_chips(case.programs, case.ideals, deadline.share(0.2)) if found is not None else None
    except Stop:
        return said, trials
    if isinstance(enough, tuple):
        text = f"With this SRAM it takes at least {counted(enough[0], 'chip')} (proved)"
        said.append(statement("least", text, "C4", chips=case.problem.chips, least_chips=enough[0]))
        trials.append(replace(chip_trial(case.instance, enough[0]), start=case.lift(enough[1])))
    elif enough is False:
        said.append(statement("least", "With this SRAM no number of chips does (proved)", "C4"))
    return said, trials


def with_chips(tried: Tried, deadline: Deadline) -> RingTrial | None:
    """The fewest chips with which a changed instance, still without a mapping, has one; None if none are found."""
    case = ExplainedInstance(tried.solved.instance, deadline)
    if case.programs is None or case.ideals is None:
        return None
    try:
        enough = least_chips(case.programs, case.ideals, deadline.share(0.2))
    except Stop:
        return None
    if not isinstance(enough, tuple):
        return None
    more, was = chip_trial(case.instance, enough[0]), tried.trial
    return RingTrial(f"{was.kind} and chips", f"{was.what}, {more.what}", more.make, start=case.lift(enough[1]))


def _least(case: ExplainedInstance, needed: int, chips: tuple[int, ...]) -> Iterator[Statement]:
    limit, short = case.problem.sram_bytes, needed - case.problem.sram_bytes
    text = f"The least SRAM that does is {in_bytes(needed)} per chip (proved), {in_bytes(short)} more than there is"
    yield statement("least", text, "C4", least_bytes=needed, sram_bytes=limit, short_bytes=short)
    yield fullest(case.problem, loads(case.problem, chips), "In a mapping with that least SRAM")


def sites(instance: RingInstance) -> Iterator[Statement]:
    """Pins that contradict the order of the data (C1), or that pull a skip connection over three chips (C3)."""
    problem = ring_problem(instance)
    fixed = {v: next(iter(chips)) for v, chips in enumerate(problem.allowed) if chips is not None and len(chips) == 1}
    if problem.has("C1"):
        below = reachable(problem)
        pairs = [(u, v) for u in fixed for v in fixed if u != v and below[u, v] and fixed[u] > fixed[v]]
        for u, v in pairs[:PAIRS]:
            names = [name(problem, u), name(problem, v)]
            text = f"{names[1]} needs the data of {names[0]} but is pinned to chip {fixed[v]}, before "
            text += f"chip {fixed[u]} where {names[0]} is pinned"
            yield statement("pins", text, "C1", operations=names)
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
        text = f"{names[0]} feeds {names[2]} directly and by way of {names[1]}, so the three can't be on three chips "
        text += f"({fixed[u]}, {fixed[w]} and {fixed[v]}: {listed(names)})"
        yield statement("pins", text, "C3", operations=names)
