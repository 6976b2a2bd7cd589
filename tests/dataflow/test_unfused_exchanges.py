"""Chips that don't fuse: what is present, parameters that rest and shared sums, as every mapping pays for them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.unfused import parts, tables
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.program import Found, UnfusedProgram
from chipmap.heuristics.dataflow.unfused.relaxed import descend, relaxed
from chipmap.heuristics.dataflow.unfused.running_order import running_order
from chipmap.instances.dataflow.batch_time import total_ticks
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, useful_plans
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.kernels import plainly
from tests.dataflow.exchange_instances import batch_time, exchange_instance, one_by_one
from tests.lanes import of_all

SEEDS = range(of_all(160, few=96))


@cache
def cases() -> list[tuple[DataflowProblem, int | None]]:
    """A problem of each random instance, and the least time of its mappings in one of the orders that are tried."""
    found = []
    for seed in SEEDS:
        random = Random(seed)
        instance = exchange_instance(random)
        degrees = random.choice(allowed_degrees(instance))
        problem = dataflow_problem(instance, degrees, *random.choice(useful_plans(instance, degrees)))
        found.append((problem, _least(problem)))
    return found


def _least(problem: DataflowProblem) -> int | None:
    times = list[int | None]()
    for chosen, time in one_by_one(problem):
        times.append(time)
        if time is None:
            times += [batch_time(problem, chosen, one) for one in running_order(problem, chosen)]
    return min((one for one in times if one is not None), default=None)


def _solved(problem: DataflowProblem) -> tuple[int | None, int | None]:
    """The least bound of all cases of the hand-over, and the time of the best mapping, which is what it claims."""
    found = list[tuple[DataflowProblem, Found]]()
    with plainly():
        for case in handover_cases(problem):
            found.append((case, UnfusedProgram(case, Deadline()).best()))
    bounds = [one.bound for _, one in found if one.bound is not None]
    times = []
    for case, one in found:
        if one.ticks is not None:
            schemes = [case.options[v][o].scheme for v, o in enumerate(one.chosen)]
            known = [[option.scheme for option in options] for options in problem.options]
            chosen = [own.index(scheme) for own, scheme in zip(known, schemes, strict=True)]
            assert batch_time(problem, chosen, one.partitions) == one.ticks
            times.append(one.ticks)
    return min(bounds, default=None), min(times, default=None)


def _compared() -> Counter[str]:
    """How often the program's mapping is the best one; its bound holds where no order was found that fits DRAM."""
    seen = Counter[str]()
    for problem, least in cases():
        bound, time = _solved(problem)
        if time is None and least is None:
            seen["infeasible"] += 1
            continue
        assert least is not None and bound is not None and bound <= least, problem.instance
        open_ = time is None or bound < time
        assert time == least or (open_ and problem.instance.system.memory.capacity_bytes is not None), problem.instance
        seen["open" if open_ else problem.instance.task.keep or "nothing to keep"] += 1
        for kind in ("shared", "added", "uses"):
            seen[kind] += bool(getattr(problem, kind)) and not open_
    return seen


@pytest.mark.parametrize("readers", [512, 1])
def test_the_elimination_is_brute_force(monkeypatch: pytest.MonkeyPatch, readers: int) -> None:
    """With a table per kernel: over all readers of a tensor, and with variables of what is present behind each."""
    monkeypatch.setattr(parts, "ALL_READERS", readers)
    monkeypatch.setattr(parts, "DIRECT", 3 if readers > 1 else 1)
    seen = _compared()
    assert min(seen[one] for one in ("none", "phase", "step", "shared", "added", "uses")) >= of_all(20, few=10), seen
    assert seen["open"] <= 15, seen


def test_tables_per_part_are_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for kernels that depend on so many others that a table of their own would be too large."""
    monkeypatch.setattr(tables, "OWN_CELLS", 1)
    monkeypatch.setattr(tables, "OPEN", 100)
    monkeypatch.setattr(parts, "ALL_READERS", 1)
    monkeypatch.setattr(parts, "DIRECT", 1)
    seen = _compared()
    assert min(seen[one] for one in ("none", "phase", "step")) >= 20 and seen["open"] <= 15, seen


def test_labels_are_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where more than the cost counts: the second run alone."""
    monkeypatch.setattr(UnfusedProgram, "_quick", lambda _: Found(0))
    seen = _compared()
    assert min(seen[one] for one in ("none", "phase", "step")) >= 20 and seen["open"] <= 15, seen


@pytest.mark.parametrize("own", [1, 1 << 14])
def test_relaxations_hold(monkeypatch: pytest.MonkeyPatch, own: int) -> None:
    """Bounds are at most the least time, mappings take what they say."""
    monkeypatch.setattr(tables, "OWN_CELLS", own)
    closed = 0
    for problem, least in cases()[:80]:
        bounds, found = [], []
        for case in handover_cases(problem):
            order = UnfusedProgram(case, Deadline()).order
            singles = SingleKernelCosts(case)
            with plainly():
                some = relaxed(singles, order, 4, Deadline())
                if some.bound is None:
                    continue
                better = descend(singles, some.chosen[: singles.kernels], Deadline())
            bounds.append(total_ticks(case, some.bound))
            if better is not None:
                found.append(total_ticks(case, better[0], better[1]))
        assert least is None or min(bounds) <= least
        if problem.instance.system.memory.capacity_bytes is None and found:
            assert least is not None and min(found) >= least
            closed += min(found) == least
    assert closed >= 10


def test_what_is_no_better_than_a_known_mapping_is_only_bounded() -> None:
    """Below a limit the best mapping; at it a bound, which holds."""
    alone = 0
    for problem, least in cases()[:60]:
        for below in (1, least, least + 1) if least is not None else ():
            with plainly():
                found = [UnfusedProgram(case, Deadline()).best(below) for case in handover_cases(problem)]
            bound = min(one.bound for one in found if one.bound is not None)
            assert least is not None and bound <= least
            alone += bound < least
            if below > least and problem.instance.system.memory.capacity_bytes is None:
                assert min(one.ticks for one in found if one.ticks is not None) == least == bound
    assert alone >= 5


def test_rough_costs_have_no_further_variables() -> None:
    """Each kernel pays for itself; what a choice of options takes is exact all the same."""
    for problem, _ in cases()[:20]:
        rough, exact = SingleKernelCosts(problem, exact=False), SingleKernelCosts(problem)
        assert len(rough.sizes) == problem.n and not rough.rules
        for chosen in product(*(range(size) for size in rough.sizes)):
            assert rough.ticks(chosen, problem.places) == exact.ticks(chosen, problem.places)
            break
