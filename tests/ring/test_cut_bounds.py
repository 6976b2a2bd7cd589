"""Bounds from minimum cuts, the bottleneck block and the contracted lattice: never above brute force's optimum."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest

from chipmap.heuristics.engines.ideals import all_ideals, bits
from chipmap.heuristics.ring.bounds.cuts import (
    block_crossing,
    blocks_refute,
    bottleneck_bound,
    least_cut,
    link_bound,
    links_refute,
)
from chipmap.heuristics.ring.bounds.lattice_bound import contracted_bound, refutes, traces
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.heuristics.ring.programs.program import Programs
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.instances.ring.station_windows import station_windows
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import MODES, random_instance

SEEDS = range(6)


def linked(seed: int, operations: int = 5, chips: int = 3, mode: str = "period") -> RingInstance:
    """A random graph on slow links, so that cuts matter."""
    random = Random(seed)
    tensors = []
    for u in range(operations - 1):
        readers = {v for v in range(u + 1, min(operations, u + 4)) if random.random() < 0.5} or {u + 1}
        tensors.append(Tensor(producer=u, readers=tuple(sorted(readers)), bytes=random.randint(1, 20)))
    names = tuple(Operation(name=f"op{v}", kind="k") for v in range(operations))
    return RingInstance(
        name="linked",
        graph=OperationGraph(name="linked", operations=names, tensors=tuple(tensors)),
        package=Package(chips=chips, link_bytes_per_ns=random.choice((1.0, 2.0, 5.0))),
        time_ns=tuple(random.randint(1, 12) for _ in range(operations)),
        constraints=("C1", "C2", "C3"),
        cost_mode=mode,  # type: ignore[arg-type]
    )


def optimum(instance: RingInstance) -> int | None:
    best, _ = brute_force(instance, check)
    return best


def worst(problem: RingProblem) -> int:
    return problem.total_ticks + 2 * sum(storage.ticks for storage in problem.storages)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_target_that_a_mapping_reaches_is_refuted(seed: int, mode: str) -> None:
    instance = linked(seed, mode=mode)
    problem = ring_problem(instance)
    best = optimum(instance)
    assert best is not None
    within = station_windows(problem, best)
    assert within is not None
    assert mode == "sum" or not links_refute(problem, within)
    assert not blocks_refute(problem, within)
    graph = flow_graph(problem)
    for limit in (8, 1000):
        assert not refutes(problem, traces(problem, graph, limit), best)
        assert contracted_bound(problem, graph, 0, worst(problem), limit=limit) <= best
    assert link_bound(problem, 0, worst(problem)) <= best
    assert bottleneck_bound(problem, 0, worst(problem)) <= best


@pytest.mark.parametrize("seed", range(15))
def test_on_instances_with_everything(seed: int) -> None:
    """Views, constants, pins, memory, any of C1 to C4, and all cost modes."""
    instance = random_instance(Random(seed), operations=5)
    best = optimum(instance)
    problem = ring_problem(contract(instance).instance)
    if best is None or not problem.computing.any():
        return
    graph = flow_graph(problem)
    assert link_bound(problem, 0, worst(problem)) <= best
    assert bottleneck_bound(problem, 0, worst(problem)) <= best
    assert contracted_bound(problem, graph, 0, worst(problem), limit=6) <= best


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_cut_is_the_least_over_all_ideals(seed: int) -> None:
    random = Random(seed)
    problem = ring_problem(linked(seed))
    graph = flow_graph(problem)
    one, other = sorted(random.sample(range(problem.n), 2))
    loads = []
    for mask in all_ideals(graph.producers).masks:
        chosen = {graph.operation[i] for i in bits(mask)}
        if one in chosen and other not in chosen:
            crossing = [s.ticks for s in problem.storages if s.producer in chosen and not chosen.issuperset(s.readers)]
            loads.append(sum(crossing))
    assert loads
    assert least_cut(problem, {one}, {other}) == min(loads)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_crossing_of_a_block_is_at_most_any_blocks(seed: int) -> None:
    random = Random(seed)
    problem = ring_problem(linked(seed))
    must = set(random.sample(range(problem.n), 1))
    may = must | set(random.sample(range(problem.n), 4))
    work = int(random.uniform(0.2, 1) * sum(int(problem.ticks[v]) for v in may))
    least = None
    free = sorted(may - must)
    for count in range(len(free) + 1):
        for extra in combinations(free, count):
            block = must | set(extra)
            if sum(int(problem.ticks[v]) for v in block) >= work:
                ends = [(s.ticks, {s.producer, *s.readers}) for s in problem.storages]
                crossing = sum(ticks for ticks, pins in ends if pins & block and pins - block)
                least = crossing if least is None else min(least, crossing)
    assert least is not None
    bounds = [block_crossing(problem, must, may, work, eighths) for eighths in range(0, 20, 3)]
    assert max(bounds) <= least
    assert block_crossing(problem, may, may, work, 0) <= least or must != may


@pytest.mark.parametrize("seed", SEEDS)
def test_the_whole_lattice_gives_the_program_free(seed: int) -> None:
    """With nothing left out, the bound is the optimum without C3 (bisection rounds by 1 in 10,000)."""
    problem = ring_problem(linked(seed))
    programs = Programs(problem)
    value = programs.solve("free", all_ideals(programs.graph.producers)).value
    assert value is not None
    found = contracted_bound(problem, programs.graph, 0, worst(problem))
    assert found <= value <= found * 1.001 + 1


def test_each_bound_says_more_than_the_arithmetic_somewhere() -> None:
    """Else the tests above would say little."""
    more = dict.fromkeys(("links", "bottleneck", "contracted"), 0)
    for seed in range(10):
        for mode in ("period", "sum"):
            problem = ring_problem(linked(seed, mode=mode))
            low = max(-(-problem.total_ticks // problem.chips), int(problem.ticks.max()))
            high, graph = worst(problem), flow_graph(problem)
            more["links"] += link_bound(problem, low, high) > low
            more["bottleneck"] += bottleneck_bound(problem, low, high) > low
            more["contracted"] += contracted_bound(problem, graph, low, high, limit=8) > low
    assert min(more.values()) >= 3, more


def test_the_method_names_them() -> None:
    instance: Any = linked(0)
    result = solve(instance, method="ring/bounds", options=SolveOptions(threads=1))
    names = {bound.source for bound in result.bounds}
    assert {"minimum cuts", "bottleneck block", "contracted lattice"} <= names
    best = optimum(instance)
    assert best is not None and all(bound.value <= best for bound in result.bounds)
