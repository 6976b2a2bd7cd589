"""Neighbourhoods of adjacent chips: exact within, nothing moves outside; whole searches never lose and find optima."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from chipmap.family import Standing
from chipmap.formulations.ring.cpsat import RingCpChoices, build
from chipmap.formulations.ring.cpsat_assignment import Neighbourhood
from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.loads import charged, loads
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring import neighbourhoods
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.facts import facts
from tests.lanes import of_all
from tests.ring.random_instances import MODES, random_instance, seeds
from tests.ring.test_mip import SUBSETS, every_subset, skip_network, solved
from tests.ring.test_oracle import load_oracle, no_more_than_two, not_twice
from tests.ring.test_stations import skips


def fresh(instance: RingInstance, **options: Any) -> Run:
    """A run with a minute."""
    return Run(instance, SolveOptions(**({"time_limit": 60.0} | options)), check)


def value(instance: RingInstance, chips: tuple[int, ...], first: int, last: int) -> int:
    """The slowest of the chips first … last and the links between them."""
    on = loads(ring_problem(instance), chips)
    links = on.load[first:last].max(initial=0) if instance.cost_mode == "period" else 0
    return max(int(charged(ring_problem(instance), on)[first : last + 1].max()), int(links))


def outside(instance: RingInstance, chips: tuple[int, ...], first: int, last: int) -> list[list[int]]:
    """All that the other chips and links work, carry and hold."""
    on = loads(ring_problem(instance), chips)
    arrays = (on.work, on.received, on.sent, on.memory_bytes, charged(ring_problem(instance), on))
    others = [c for c in range(instance.package.chips) if not first <= c <= last]
    links = [c for c in range(instance.package.chips) if not first <= c < last]
    return [array[others].tolist() for array in arrays] + [on.load[links].tolist()]


def feasible(instance: RingInstance) -> list[tuple[int, ...]]:
    """The chips of every valid mapping."""
    return [solution.chips for solution in candidates(instance) if check(instance, solution).feasible]


def small(seed: int, **fields: Any) -> RingInstance:
    """A contracted random instance with at most four chips and five operations."""
    return contract(random_instance(Random(seed), operations=5, chips=4, **fields)).instance


@settings(max_examples=of_all(60, few=24), deadline=None)
@given(seeds)
def test_a_neighbourhood_is_exact_and_moves_nothing_else(seed: int) -> None:
    random = Random(seed)
    fields = {"memory_grade": "full"} if random.random() < 0.3 else {}
    instance = small(seed, **fields)
    valid = feasible(instance)
    if not valid:
        return
    first = random.randrange(instance.package.chips)
    last = random.randrange(first, instance.package.chips)
    around = Neighbourhood(random.choice(valid), first, last)
    near = [
        chips for chips in valid if all(around.domain(v)[0] <= c <= around.domain(v)[1] for v, c in enumerate(chips))
    ]
    for chips in near:
        assert outside(instance, chips, first, last) == outside(instance, around.chips, first, last)
    best = max(min(value(instance, chips, first, last) for chips in near), ring_problem(instance).least_ticks)
    model = build(instance, RingCpChoices(around=around))
    assert model.standing is Standing.AUXILIARY
    outcome = solved(model)
    assert outcome.objective == pytest.approx(best, rel=1e-9) and outcome.value_of is not None
    placed = facts(instance).computing  # a shared constant may sit anywhere
    found = model.decode(outcome.value_of).chips
    assert [found[v] for v in placed] in [[chips[v] for v in placed] for chips in near]
    below = build(instance, RingCpChoices(around=around, upper=best - 1))
    assert solved(below).termination.reason == "infeasible"


@settings(max_examples=of_all(40, few=16), deadline=None)
@given(seeds)
def test_all_chips_as_a_neighbourhood_give_the_optimum(seed: int) -> None:
    """Three chips are one neighbourhood: from the worst mapping to the optimum, in either grade of C4."""
    grade: Any = "full" if seed % 3 == 0 else "boundary"
    instance = random_instance(Random(seed), operations=6, chips=3, memory_grade=grade)
    best, _ = brute_force(instance, check)
    if best is None:
        return
    run = fresh(instance)
    worst = max(feasible(instance), key=lambda chips: check(instance, RingSolution(chips=chips)).objective or 0)
    run.solution(RingSolution(chips=worst), "worst")
    neighbourhoods.windows(instance, run)
    assert run.upper == best and not run.rejected
    assert run.lower is not None and run.lower.value <= best


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("labels", SUBSETS, ids=lambda labels: "".join(labels) or "none")
def test_every_subset_of_constraints(labels: tuple[str, ...], mode: str) -> None:
    instance, best = every_subset(labels, mode)
    run = fresh(instance)
    neighbourhoods.windows(instance, run)
    assert not run.rejected
    assert run.upper is None or best is None or instance.package.chips > 3 or run.upper == best


@pytest.mark.parametrize("seed", range(8))
def test_neighbourhoods_of_three_chips_never_worsen(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows smaller than the package: what each gains is judged by the checker, and only lowers the sorted loads."""
    monkeypatch.setattr(neighbourhoods, "SIZES", (3,))
    instance = skips(seed, operations=12, chips=6)
    seen: list[list[int]] = []
    accept = neighbourhoods._Search._accept

    def watched(search: Any, better: Any) -> None:
        before = search.chips
        accept(search, better)
        moved = np.flatnonzero(before != better)
        ends = {*before[moved].tolist(), *better[moved].tolist()}
        assert moved.size and max(ends) - min(ends) <= 2
        seen.append(sorted([*search.charged.tolist(), *search.links.tolist()], reverse=True))

    monkeypatch.setattr(neighbourhoods._Search, "_accept", watched)
    run = fresh(instance)
    neighbourhoods.windows(instance, run)
    values = [event.value for event in run.trace if event.event == "solution"]
    assert values == sorted(set(values), reverse=True)
    assert seen == sorted(seen, reverse=True) and not run.rejected
    assert all(bound.source != neighbourhoods.SOURCE for bound in run.bounds)


@pytest.mark.parametrize("function", [no_more_than_two, not_twice])
def test_the_oracle_is_obeyed(function: Any) -> None:
    """What the user's function rejects is cut off and the neighbourhood asked again."""
    instance = skips(3, operations=6, chips=4)
    oracle = load_oracle(function)
    run = Run(instance, SolveOptions(time_limit=60.0), lambda i, s: check(i, s, oracle), oracle=oracle)
    accepted = [s for s in candidates(instance) if check(instance, s).feasible and function(instance, s) in (True, [])]
    run.solution(max(accepted, key=lambda s: check(instance, s).objective or 0), "worst")
    start = run.upper
    neighbourhoods.windows(instance, run)
    assert run.best is not None and start is not None and run.best.objective < start
    assert function(instance, run.best.solution) in (True, [])
    assert {violation.label for _, certificate in run.rejected for violation in certificate.violations} <= {"C5"}


def test_without_a_mapping_there_is_nothing_to_do() -> None:
    instance = skip_network(package=Package(chips=3, sram_bytes=0), constraints=("C1", "C2", "C4"))
    assert facts(instance).computing
    run = fresh(instance)
    assert neighbourhoods.windows(instance, run).reason == "no_solution_found"
