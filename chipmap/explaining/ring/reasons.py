"""What holds the period of a ring instance up, as statements: the mapping's busiest resource, the bounds and who is
behind them, what each constraint costs, and why chips stay unused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from chipmap.deadline import Deadline, Stop
from chipmap.explaining.driver import Check, statement
from chipmap.explaining.ring.solved import ExplainedInstance, RingSolved, Tried
from chipmap.explanation import Statement
from chipmap.heuristics.ring.bounds.shortages import fewest_chips
from chipmap.heuristics.ring.bounds.simple import SkipConnection, average, largest, packing, skip_connections
from chipmap.instances.ring.loads import Loads, charged, loads
from chipmap.instances.ring.problem import RingProblem
from chipmap.methods.ring.text import TICKS_PER_US, times, us
from chipmap.records import counted, listed
from chipmap.records.quantities import in_bytes, share

#: Violations of a relaxed mapping that are put into words.
SHOWN = 2


def verdict(base: RingSolved) -> Statement:
    """How good the best mapping is."""
    assert base.objective is not None
    if base.proved:
        text = "the least there is (proved)"
    elif base.bound is not None:
        text = f"the best found; nothing below {us(base.bound)} is possible (gap "
        text += f"{share(base.objective - base.bound, base.objective)})"
    else:
        text = "the best found, without a bound"
    chips, used = base.instance.package.chips, base.chips_used
    text = f"The period is {us(base.objective)}, {text}; {used} of {counted(chips, 'chip')} are used"
    return statement("verdict", text, period_us=base.objective / TICKS_PER_US, chips_used=used, chips=chips)


def busiest(case: ExplainedInstance, base: RingSolved) -> Iterator[Statement]:
    """The chips or links that are as busy as the period, and the fullest chip."""
    assert base.objective is not None and base.solution is not None
    problem, f = case.problem, case.lower(base.solution)
    on = loads(problem, f)
    busy = charged(problem, on)
    for chip in np.flatnonzero(busy == base.objective).tolist()[:1]:
        mine = sorted(
            (v for v in np.flatnonzero(problem.computing).tolist() if f[v] == chip),
            key=lambda v: -int(problem.ticks[v]),
        )
        count = int((busy == base.objective).sum())
        more = f" (as are {count - 1} others)" if count > 2 else " (as is another)" if count == 2 else ""
        extra = "" if problem.cost_mode == "period" else " with what it sends and receives"
        text = f"Chip {chip} is busy all the time{extra}{more}: {counted(len(mine), 'operation')}, "
        text += listed(f"{case.name(v)} ({us(int(problem.ticks[v]))})" for v in mine)
        yield statement("busiest", text, "T1", chip=chip, operations=len(mine))
    if problem.cost_mode == "period":
        for link in np.flatnonzero(on.load == base.objective).tolist()[:1]:
            yield link_statement(case, f, link, int(on.load[link]), "busiest", "is busy all the time")
    if problem.has("C4"):
        yield fullest(problem, on)


def link_statement(
    case: ExplainedInstance, f: tuple[int, ...], link: int, load: int, topic: str, verb: str
) -> Statement:
    """Which tensors cross a link."""
    crossing = [s for s in case.problem.storages if f[s.producer] <= link < max(f[v] for v in s.readers)]
    crossing.sort(key=lambda s: -s.ticks)
    text = f"Link {link} -> {link + 1} {verb} ({us(load)}): it carries {counted(len(crossing), 'tensor')}, "
    text += listed(f"that of {case.name(s.producer)} ({in_bytes(s.bytes)}, {us(s.ticks)})" for s in crossing)
    tensors = {"tensors": [case.name(s.producer) for s in crossing], "bytes": [s.bytes for s in crossing]}
    return statement(topic, text, "T2", link=link, load_us=load / TICKS_PER_US, **tensors)


def fullest(problem: RingProblem, on: Loads, where: str = "Memory") -> Statement:
    """The chip with the most memory in use."""
    chip = int(on.memory_bytes.argmax())
    weights, buffers, limit = int(on.weight_bytes[chip]), int(on.boundary_bytes[chip]), problem.sram_bytes
    relayed, live, needed = int(on.relay_bytes[chip]), int(on.peak_bytes[chip]), int(on.memory_bytes[chip])
    more = (
        f", what passes through 2 x {in_bytes(relayed)} and live tensors {in_bytes(live)}"
        if problem.full_memory
        else ""
    )
    spare = f"{in_bytes(limit - needed)} are free" if needed <= limit else f"{in_bytes(needed - limit)} are short"
    text = f"{where}: the fullest chip ({chip}) needs {in_bytes(needed)}, weights {in_bytes(weights)} and buffers 2 x "
    text += f"{in_bytes(buffers)}{more}; it has {in_bytes(limit)}, so {spare}"
    figures = {"weight_bytes": weights, "buffer_bytes": buffers, "relay_bytes": relayed, "live_bytes": live}
    return statement("memory", text, "C4", chip=chip, **figures, sram_bytes=limit)


def bounds(case: ExplainedInstance, base: RingSolved) -> Iterator[Statement]:
    """The bounds that need no solver, who is behind them, and how near they come to the period."""
    problem, period = case.problem, base.objective

    def of(value: int) -> str:
        return f", {share(value, period)} of the period" if period else ""

    mean, exact = average(problem), problem.total_ticks / problem.chips
    figures = {"average_us": exact / TICKS_PER_US, "of_period": mean / period if period else None}
    yield statement("bound", f"All work spread evenly is {us(mean)} per chip{of(mean)}", "T1", **figures)
    longest, name = largest(problem), case.name(int(problem.ticks.argmax()))
    alone = " and so holds it up by itself" if longest == period else ""
    text = f"The longest operation, {name}, takes {us(longest)}, {times(longest, exact)} of that average"
    figures = {"longest_us": longest / TICKS_PER_US, "of_average": longest / exact if exact else None}
    figures["of_period"] = longest / period if period else None
    yield statement("bound", f"{text}{of(longest)}{alone}", "T1", operation=name, **figures)
    packed = packing(problem)
    if packed > max(mean, longest):
        text = f"Too many long operations for {problem.chips} chips: {us(packed)} on some chip{of(packed)}"
        yield statement("bound", text, "T1")
    if problem.has("C1") and problem.has("C3"):
        yield from (skip_statement(case, skip, of) for skip in skip_connections(problem, case.graph)[:1])
    if period is not None and problem.cost_mode == "period" and problem.has("C1"):
        yield from _slow_tensors(case, period)


def skip_statement(case: ExplainedInstance, skip: SkipConnection, of: Any) -> Statement:
    """What lies under a skip connection shares two chips."""
    ends, half = {"producer": case.name(skip.producer), "reader": case.name(skip.reader)}, -(-skip.ticks // 2)
    tensor = max(s.bytes for s in case.problem.storages if s.producer == skip.producer and skip.reader in s.readers)
    text = (
        f"Everything under the skip connection {' -> '.join(ends.values())} (a tensor of {in_bytes(tensor)}) lives on "
        f"two chips (C3): {counted(skip.operations, 'operation')}, {us(skip.ticks)} of work, so at least {us(half)} on "
        f"one of them{of(half)}"
    )
    work = {"work_us": skip.ticks / TICKS_PER_US, "bound_us": half / TICKS_PER_US}
    return statement("bound", text, "C3", **ends, tensor_bytes=tensor, operations=skip.operations, **work)


def _slow_tensors(case: ExplainedInstance, period: int) -> Iterator[Statement]:
    slow = sorted((s for s in case.problem.storages if s.ticks > period), key=lambda s: -s.ticks)
    if slow:
        text = (
            f"{counted(len(slow), 'tensor')} would keep a link busy for longer than the period, so maker and readers "
        )
        text += "share a chip: " + listed(f"{case.name(s.producer)} ({in_bytes(s.bytes)}, {us(s.ticks)})" for s in slow)
        tensors = {"tensors": [case.name(s.producer) for s in slow], "bytes": [s.bytes for s in slow]}
        yield statement("links", text, "T2", **tensors)


def costs(case: ExplainedInstance, base: RingSolved, relaxed: list[Tried], check: Check) -> Iterator[Statement]:
    """What each constraint costs: the instance solved without it, and where that mapping breaks it."""
    assert base.objective is not None
    nothing = []
    for tried in relaxed:
        solved, what = tried.solved, tried.trial.what
        if solved.objective is None:
            continue
        saved = base.objective - solved.objective
        standing = "proved" if solved.proved else "best found"
        figures: dict[str, Any] = {"period_us": solved.objective / TICKS_PER_US, "standing": standing}
        if tried.trial.kind == "balance":
            if solved.proved:
                text = "even with all of that away" if saved == 0 else "from whole operations in their order alone"
                yield statement("cost", f"{what} the period is {us(solved.objective)} ({text})", **figures)
        elif saved > 0:
            standing = "proved to be its least" if solved.proved else "best found"
            text = f"{what} the period is {us(solved.objective)} ({standing}), {share(saved, base.objective)} less"
            yield statement("cost", text, **figures)
            yield from _blocked(case, base, tried, check)
        elif solved.proved and base.proved:
            nothing.append(what)
        else:
            yield statement("cost", f"{what} nothing better was found", **figures)
    if nothing:
        each = ", each" if len(nothing) > 1 else ""
        text = " or ".join([", ".join(nothing[:-1]), nothing[-1]] if len(nothing) > 1 else nothing)
        yield statement("cost", f"The period gets no shorter {text} (proved{each})", changes=nothing)


def _blocked(case: ExplainedInstance, base: RingSolved, tried: Tried, check: Check) -> Iterator[Statement]:
    """Where the mapping found without a constraint breaks it: the checker's message, or the slowest link."""
    assert tried.solved.solution is not None
    if tried.trial.left_out == "links":
        f = case.lower(tried.solved.solution)
        load = loads(case.problem, f).load
        link = int(load.argmax())
        if int(load[link]) > (tried.solved.objective or 0):
            yield link_statement(case, f, link, int(load[link]), "blocked", "would hold that mapping up")
        return
    certificate = check(base.instance, tried.solved.solution)
    if found := certificate.violations:
        first = "; ".join(violation.message for violation in found[:SHOWN])
        text = f"What stands in that mapping's way ({counted(len(found), 'violation')}): {first}"
        yield statement("blocked", text, found[0].label, violations=len(found))


def enough(case: ExplainedInstance, base: RingSolved, deadline: Deadline) -> tuple[int, int]:
    """(chips that the period takes at least, chips that do for it); equal where that is proved."""
    used = base.chips_used
    if base.objective is None or case.programs is None or case.ideals is None or not case.problem.has("C2"):
        return 1, used
    try:
        return fewest_chips(case.programs, case.ideals, base.objective, used, deadline.share(0.2))
    except Stop:
        return 1, used


def unused(
    case: ExplainedInstance, base: RingSolved, least: tuple[int, int], doubled: Tried | None
) -> Iterator[Statement]:
    """Why chips stay unused: how many do for the period (``least``), and what stops it from falling with more.

    Silent without C2: there the chips in use need not be the first ones.
    """
    count, period = base.instance.package.chips, base.objective
    low, high = least
    if period is None or high == count or not case.problem.has("C2"):
        return
    text = f"{counted(high, 'chip')} {'does' if high == 1 else 'do'} for this period"
    text += " and fewer don't (proved)" if low == high else ""
    longest = largest(case.problem)
    if longest == period:
        why = f"no mapping is faster than {case.name(int(case.problem.ticks.argmax()))}, which alone takes "
        why += f"{times(longest, case.problem.total_ticks / count)} of a chip's average work"
    elif doubled is not None and doubled.solved.proved and doubled.solved.objective == period:
        why = f"with {doubled.solved.instance.package.chips} chips the least period is the same (proved)"
    elif base.proved:
        why = "no mapping that uses the others is faster (proved)"
    else:
        why = "in the best mapping found"
    text, used = f"Of {counted(count, 'chip')}, {text}: {why}", base.chips_used
    yield statement("unused", text, chips=count, chips_used=used, chips_enough=high, chips_proved_needed=low)
