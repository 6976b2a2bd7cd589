"""Local search: what it keeps up to date is what a fresh count gives; mappings are valid; targets are met."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.local_search.levels_kernel import NO_LEVELS
from chipmap.heuristics.ring.local_search.loads_kernel import Goal, broken, excess
from chipmap.heuristics.ring.local_search.moves_kernel import Heat, anneal
from chipmap.heuristics.ring.local_search.search import Effort, LocalSearch, closed
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.instance import Forbidden, Pin
from chipmap.instances.ring.loads import loads, terms
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.variants import without
from chipmap.methods.ring import chain, local_search
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import MODES, random_instance

FREE = 10**15


def wide(**setting: Any) -> RingInstance:
    """Sixty operations, six wide, on twelve chips."""
    instance = generate("layered", **{"operations": 60, "width": 6, "chips": 12, "seed": 3, **setting})
    assert isinstance(instance, RingInstance)
    return instance


@pytest.mark.parametrize("seed", range(20))
def test_moves_keep_c1_and_what_follows_from_the_mapping(seed: int) -> None:
    """Thousands of moves at a temperature at which nearly all are made, with shared constants, views and inputs."""
    instance = random_instance(Random(seed), operations=14, side=False, constraints=("C1", "C2", "C3", "C4"))
    problem = ring_problem(contract(instance).instance)
    if not problem.computing.any() or not problem.total_ticks:
        return
    search = LocalSearch(problem)
    mode = MODES.index(problem.cost_mode)
    place = search.place(np.zeros(len(search.operations), dtype=np.int64))
    goal = Goal(1, mode, problem.sram_bytes, 0.001, 0.001)
    anneal(search.net, place, goal, NO_LEVELS, Heat(np.array([1e9]), 1.0, np.array([seed], dtype=np.uint64)), 3000)
    chips = np.zeros(problem.n, dtype=np.int64)
    chips[search.operations] = place.chip
    assert all(chips[u] <= chips[v] for u, v in problem.flows.tolist())
    on = loads(problem, chips)
    for mine, theirs in ((place.work, on.work), (place.load, on.load), (place.moved, on.received + on.sent)):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(place.weights, on.weight_bytes)
    np.testing.assert_array_equal(place.boundary, on.boundary_bytes)
    fresh = search.place(place.chip)
    np.testing.assert_array_equal(place.flows, fresh.flows)
    np.testing.assert_array_equal(place.senders, fresh.senders)
    assert excess(place, goal) == excess(fresh, goal)


@pytest.mark.parametrize("seed", range(30))
def test_the_excess_of_c3_is_the_checkers(seed: int) -> None:
    """Pairs are broken exactly where the checker finds C3 broken."""
    random = Random(seed)
    instance = random_instance(random, operations=10, side=False, constraints=("C1", "C3"))
    contraction = contract(instance)
    problem = ring_problem(contraction.instance)
    if not problem.computing.any():
        return
    search = LocalSearch(problem)
    steps = [random.random() < 0.5 for _ in search.operations]
    chips = np.minimum(np.cumsum(steps), problem.chips - 1).astype(np.int64)
    mapping = np.full(problem.n, -1, dtype=np.int64)
    mapping[search.operations] = chips
    certificate = check(instance, contraction.lift(RingSolution(chips=tuple(mapping.tolist()))))
    labels = {violation.label for violation in certificate.violations}
    found = broken(search.place(chips), Goal(FREE, 0, -1, 1.0, 0.0))
    assert (found > 0) == ("C3" in labels)


@pytest.mark.parametrize("mode", MODES)
def test_mappings_are_valid_and_better(mode: str) -> None:
    """Each mapping handed over is better than the one before, and the checker accepts it at that value."""
    instance = wide(cost_mode=mode)
    problem = ring_problem(instance)
    start = greedy(problem)
    assert start is not None
    values = [max(terms(problem, start))]

    def take(chips: tuple[int, ...]) -> bool:
        certificate = check(instance, RingSolution(chips=chips))
        assert certificate.feasible and certificate.objective == max(terms(problem, chips))
        assert certificate.objective < values[-1]
        values.append(certificate.objective)
        return len(values) < 12

    LocalSearch(problem).improve(start, take, 0, doublings=0)
    assert len(values) == 12 or values[-1] < 0.9 * values[0]


@pytest.mark.parametrize("seed", range(3))
def test_pins_and_groups_apart_are_obeyed(seed: int) -> None:
    """Every third operation of a greedy mapping pinned, two forbidden a chip, five pairs apart; then it gets better."""
    plain, random = wide(), Random(seed)
    start = greedy(ring_problem(plain))
    assert start is not None
    names = [one.name for one in plain.graph.operations]
    pairs = [(u, v) for u in range(1, len(names), 3) for v in range(2, len(names), 3) if start[u] != start[v]]
    instance = plain.replace(
        pins=tuple(Pin(operation=names[v], chip=start[v]) for v in range(0, len(names), 6)),
        forbidden=tuple(Forbidden(operation=names[v], chips=((start[v] + 3) % 12,)) for v in (1, 2)),
        apart=tuple((names[u], names[v]) for u, v in random.sample(pairs, 5)),
    )
    problem, values = ring_problem(instance), [max(terms(ring_problem(instance), start))]

    def take(chips: tuple[int, ...]) -> bool:
        certificate = check(instance, RingSolution(chips=chips))
        assert certificate.feasible and certificate.objective is not None and certificate.objective < values[-1]
        values.append(certificate.objective)
        return len(values) < 4

    LocalSearch(problem).improve(start, take, 0, seed, doublings=0)
    assert len(values) > 1


@pytest.mark.parametrize("seed", range(12))
def test_no_better_than_brute_force(seed: int) -> None:
    """On tiny instances every target from the optimum on is met, and none below."""
    instance = random_instance(Random(seed), operations=6, side=False, constraints=("C1", "C2", "C3"))
    best, _ = brute_force(instance, check)
    contraction = contract(instance)
    problem = ring_problem(contraction.instance)
    if not problem.computing.any() or not best:
        return
    search = LocalSearch(problem)
    start = np.zeros(len(search.operations), dtype=np.int64)
    random = np.array([seed], dtype=np.uint64)
    found = search.attempt(start, best, Effort(0.6, 1.0, 100_000), random)
    assert found is not None
    mapping = np.full(problem.n, -1, dtype=np.int64)
    mapping[search.operations] = closed(found)
    certificate = check(instance, contraction.lift(RingSolution(chips=tuple(mapping.tolist()))))
    assert certificate.feasible and certificate.objective == best
    if best > 1:
        assert search.attempt(start, best - 1, Effort(0.6, 1.0, 20_000), random) is None


def test_a_wide_graph_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ring/local`` says where its mapping is from; the same seed gives the same."""
    monkeypatch.setattr("chipmap.heuristics.ring.local_search.search.DOUBLINGS", 0)
    monkeypatch.setattr("chipmap.heuristics.ring.local_search.levels.DOUBLINGS", 0)
    first, again = (
        solve(wide(operations=24), "ring/local", SolveOptions(seed=1, deterministic=True, threads=1)) for _ in range(2)
    )
    assert first.incumbent_source in (local_search.SOURCE, local_search.LEVELS)
    assert first.objective == again.objective and first.solution == again.solution
    begun = solve(wide(operations=24), "ring/greedy")
    assert begun.objective is not None and first.objective is not None and first.objective < begun.objective


def test_the_chain_searches_graphs_with_many_ideals(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ring/auto`` as far as the listing of ideals, which there are more of than few: local search comes before."""
    monkeypatch.setattr(chain, "FEW_IDEALS", 10)
    monkeypatch.setattr(chain, "CHAIN", chain.CHAIN[:3])
    monkeypatch.setattr(local_search, "_in_levels", lambda *_: None)
    begun: list[int] = []
    monkeypatch.setattr(LocalSearch, "improve", lambda self, chips, *_: begun.append(len(chips)))
    solve(wide(), "ring/auto", SolveOptions(deterministic=True, threads=1))
    assert begun == [int(ring_problem(wide()).computing.sum())]


@pytest.mark.parametrize(
    ("setting", "words"),
    [({"chips": 65}, "at most 64 chips"), ({"constraints": ("C2", "C3")}, "rests on C1")],
)
def test_where_it_does_not_apply(setting: dict[str, Any], words: str) -> None:
    instance = wide(**setting) if "chips" in setting else wide().replace(**setting)
    with pytest.raises(ValueError, match=words):
        LocalSearch(ring_problem(instance))
    result = solve(instance, "ring/local")
    assert result.objective is not None


def test_a_first_mapping_where_memory_is_short() -> None:
    """From a mapping that needs more SRAM than there is, one that obeys all constraints."""
    instance = wide(sram_mib=1.25)
    problem = ring_problem(instance)
    start = greedy(ring_problem(without(instance, "C4")))
    assert start is not None
    begun = check(instance, RingSolution(chips=start))
    assert {violation.label for violation in begun.violations} == {"C4"}
    found = LocalSearch(problem).first(start)
    assert found is not None and check(instance, RingSolution(chips=found)).feasible


def test_the_method_finds_a_first_mapping_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ring/local`` where greedy finds nothing."""
    monkeypatch.setattr("chipmap.heuristics.ring.local_search.search.DOUBLINGS", 0)
    monkeypatch.setattr("chipmap.heuristics.ring.local_search.levels.DOUBLINGS", 0)
    monkeypatch.setattr("chipmap.methods.ring.programs.greedy", lambda *_: None)
    result = solve(
        wide(operations=30, sram_mib=1.25), "ring/local", SolveOptions(seed=1, deterministic=True, threads=1)
    )
    assert result.objective is not None and result.incumbent_source in (local_search.SOURCE, local_search.LEVELS)
