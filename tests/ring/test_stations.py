"""The station search: against brute force and the exact program; cut short, it proves nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.heuristics.engines.ideals import all_ideals
from chipmap.heuristics.ring.programs.program import Programs
from chipmap.heuristics.ring.programs.triangle import solve_exact
from chipmap.heuristics.ring.station_search.search import StationSearch
from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import random_instance

C123: Any = ("C1", "C2", "C3")
ALL = 1 << 20


def skips(seed: int, operations: int = 11, chips: int = 6) -> RingInstance:
    """A random graph with many skip connections and several sources."""
    random = Random(seed)
    tensors = []
    for u in range(operations - 1):
        readers = {v for v in range(u + 1, min(operations, u + 6)) if random.random() < 0.35}
        if readers:
            tensors.append(Tensor(producer=u, readers=tuple(sorted(readers)), bytes=random.randint(1, 9)))
    graph = OperationGraph(
        name="skips",
        operations=tuple(Operation(name=f"op{v}", kind="k") for v in range(operations)),
        tensors=tuple(tensors),
    )
    return RingInstance(
        name="skips",
        graph=graph,
        package=Package(chips=chips, link_bytes_per_ns=random.choice((None, 1.0, 0.3))),
        time_ns=tuple(random.randint(0, 12) / 4 for _ in range(operations)),
        constraints=C123,
    )


@pytest.mark.parametrize("seed", range(60))
def test_against_brute_force(seed: int) -> None:
    """At no target from the optimum on does it claim that there is no mapping; below, that there is one."""
    random = Random(seed)
    pure = seed % 2 == 0
    fields = {"constraints": C123, "cost_mode": "period"} if pure else {"constraints": (*C123, "C4")}
    instance = random_instance(random, operations=7, side=not pure, **fields)
    contraction = contract(instance)
    problem = ring_problem(contraction.instance)
    if not problem.computing.any():
        return
    best, _ = brute_force(instance, check)
    search = StationSearch(problem)
    for target in {0, (best or 0) - 1, best or 10**6, 2 * (best or 10**6)}:
        result = search.decide(target, ALL, ALL)
        if best is not None and target >= best:
            assert result.chips is not None or not result.complete
        if result.chips is not None:
            certificate = check(instance, contraction.lift(RingSolution(chips=result.chips)))
            assert certificate.feasible or not pure
            objective = certificate.objective or 0
            assert not certificate.feasible or problem.cost_mode != "period" or objective <= target
        if pure:
            assert result.complete or result.chips is not None
            assert (result.chips is not None) == (best is not None and target >= best)


@pytest.mark.parametrize("seed", range(60))
def test_against_the_exact_program(seed: int) -> None:
    """On graphs where C3 costs something the two exact methods agree on the optimum, and below it."""
    instance = skips(seed)
    problem = ring_problem(contract(instance).instance)
    programs = Programs(problem)
    most = problem.total_ticks + sum(storage.ticks for storage in problem.storages)
    best = solve_exact(programs, all_ideals(programs.graph.producers), most).value
    assert best is not None
    search = StationSearch(problem, programs.graph)
    found = search.decide(best, ALL, ALL)
    assert found.chips is not None
    assert check(instance, contract(instance).lift(RingSolution(chips=found.chips))).objective == best
    below = search.decide(best - 1, ALL, ALL)
    assert below.chips is None and below.complete


def test_c3_costs_something_on_these_graphs() -> None:
    """Else the comparison above would say little."""
    dearer = 0
    for seed in range(60):
        problem = ring_problem(contract(skips(seed)).instance)
        programs = Programs(problem)
        ideals = all_ideals(programs.graph.producers)
        free, path = (programs.solve(rule, ideals).value for rule in ("free", "path"))  # type: ignore[arg-type]
        exact = solve_exact(programs, ideals, int(path or 0)).value
        dearer += free is not None and exact is not None and free < exact < (path or 0)
    assert dearer >= 5


@pytest.mark.parametrize(("width", "nodes"), [(1, ALL), (ALL, 2)])
def test_cut_short_it_proves_nothing(width: int, nodes: int) -> None:
    short = 0
    for seed in range(30):
        instance = skips(seed)
        problem = ring_problem(contract(instance).instance)
        programs = Programs(problem)
        most = problem.total_ticks + sum(storage.ticks for storage in problem.storages)
        best = solve_exact(programs, all_ideals(programs.graph.producers), most).value
        assert best is not None
        result = StationSearch(problem).decide(best, width, nodes)
        short += result.chips is None
        assert result.chips is not None or not result.complete
    assert short > 0


def test_several_orders_find_more_and_claim_no_more() -> None:
    """Cut short, three orders in one search find at least what one finds, and nothing below the optimum."""
    found = {(1,): 0, (1, 0, 2): 0}
    for seed in range(30):
        problem = ring_problem(contract(skips(seed)).instance)
        programs = Programs(problem)
        most = problem.total_ticks + sum(storage.ticks for storage in problem.storages)
        best = solve_exact(programs, all_ideals(programs.graph.producers), most).value
        assert best is not None
        search = StationSearch(problem, programs.graph)
        for orders in found:
            found[orders] += search.decide(best, 4, 6, orders=orders).chips is not None
            assert search.decide(best - 1, 4, 6, orders=orders).chips is None
    assert found[1, 0, 2] > found[1,]


def test_the_chain_searches_before_it_lists_all_ideals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are many; the optimum stays the same."""
    from chipmap.methods.ring import chain as ring

    instance = skips(3)
    reference = solve(instance, method="ring/auto", options=SolveOptions(threads=1))
    monkeypatch.setattr(ring, "FEW_IDEALS", 2)
    result = solve(instance, method="ring/auto", options=SolveOptions(threads=1))
    assert result.status == reference.status == "optimal"
    assert result.objective == reference.objective


def test_the_method_reports_what_it_found() -> None:
    instance = skips(3)
    result = solve(instance, method="ring/stations", options=SolveOptions(threads=1))
    reference = solve(instance, method="ring/exact", options=SolveOptions(threads=1))
    assert reference.status == "optimal"
    assert result.objective == reference.objective
    assert result.objective is not None
    assert result.bound is not None and result.bound <= result.objective
