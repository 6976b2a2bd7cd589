"""Every kind of bound where it is tight: equal to the optimum by brute force, so that a tick more would be wrong.

Links carry 20 bytes/ns, so that a byte takes 5 ticks. Times are in ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chipmap.heuristics.engines.ideals import all_ideals
from chipmap.heuristics.ring.bounds.simple import average, largest, packing, skip
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.heuristics.ring.programs.program import Programs
from chipmap.heuristics.ring.programs.triangle import solve_exact
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.station_search.search import StationSearch
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.instances.ring.station_windows import least_target
from chipmap.methods.ring.programs import bounds
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check

#: A target that no bisection here comes near.
HIGH = 1000


def made(
    ticks: Sequence[int], edges: Sequence[tuple[int, int]], chips: int = 2, link: float | None = None, **fields: Any
) -> RingInstance:
    """Operations with these times and a tensor of one byte for every edge."""
    graph = OperationGraph(
        name="tight",
        operations=tuple(Operation(name=f"op{v}", kind="k") for v in range(len(ticks))),
        tensors=tuple(Tensor(producer=u, readers=(v,), bytes=1) for u, v in edges),
    )
    given: dict[str, Any] = {"constraints": ("C1", "C2", "C3"), **fields}
    package = Package(chips=chips, link_bytes_per_ns=link)
    return RingInstance(name="tight", graph=graph, package=package, time_ns=tuple(t / 100 for t in ticks), **given)


def optimum(instance: RingInstance) -> int:
    """The least objective, by brute force."""
    best, _ = brute_force(instance, check)
    assert best is not None
    return best


EVEN = made((5, 5, 5, 5), [(0, 1), (1, 2), (2, 3)])
LONG = made((3, 14, 3), [(0, 1), (1, 2)], chips=3)
THREE = made((10, 10, 10), [])
#: The order of the operations costs something: 2 + 3 | 2.
ORDER = made((2, 3, 2), [(0, 1), (1, 2)])
#: C3: the three operations share two chips, though there are three.
SKIP = made((10, 10, 10), [(0, 1), (1, 2), (0, 2)], chips=3)
#: Three tensors of 5 ticks, none of them too slow by itself.
LINKS = made((10, 10), [(0, 1)] * 3, link=20.0)
SUM = made((30, 30), [(0, 1)] * 3, link=20.0, cost_mode="sum")
FORWARD = made((30, 30), [(0, 1)] * 3, link=20.0, cost_mode="sum_forward")
#: C3 breaks by way of operations that share a chip and that no path joins: n1 < optimum < path.
QUOTIENT = made((4, 1, 4, 3, 1, 2), [(0, 4), (1, 4), (1, 5), (2, 4), (3, 4), (3, 5)], chips=3)

BOUNDS: dict[str, tuple[Callable[[RingProblem], int], RingInstance]] = {
    "average": (average, EVEN),
    "largest operation": (largest, LONG),
    "packing": (packing, THREE),
    "skip": (lambda problem: skip(problem, flow_graph(problem)), made((10, 10, 20), [(0, 1), (1, 2), (0, 2)], chips=3)),
    "station windows: work": (lambda problem: least_target(problem, 0, HIGH), ORDER),
    "station windows: C3": (lambda problem: least_target(problem, 0, HIGH), SKIP),
    "station windows: with the reader": (
        lambda problem: least_target(problem, 0, HIGH),
        made((25, 10, 15), [(0, 1), (1, 2), (0, 2)], chips=3),
    ),
    "station windows: with the producer": (
        lambda problem: least_target(problem, 0, HIGH),
        made((15, 10, 25), [(0, 1), (1, 2), (0, 2)], chips=3),
    ),
    "station windows: slow tensors": (
        lambda problem: least_target(problem, 0, HIGH),
        made((10, 10), [(0, 1)], link=6.25),
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_is_the_optimum(name: str) -> None:
    bound, instance = BOUNDS[name]
    assert bound(ring_problem(contract(instance).instance)) == optimum(instance)


@pytest.mark.parametrize(("rule", "instance"), [("free", ORDER), ("free", LINKS), ("n1", SKIP), ("path", SKIP)])
def test_a_program_is_the_optimum(rule: Any, instance: RingInstance) -> None:
    """Its value, and as a refutation: there is a chain within the optimum and none within a tick less."""
    programs = Programs(ring_problem(contract(instance).instance))
    ideals, best = all_ideals(programs.graph.producers), optimum(instance)
    assert programs.solve(rule, ideals).value == programs.solve(rule, ideals, best).value == best
    assert programs.solve(rule, ideals, best - 1).value is None


@pytest.mark.parametrize("instance", [ORDER, SKIP, LINKS, SUM, FORWARD, QUOTIENT])
def test_the_exact_program_refutes_a_tick_less(instance: RingInstance) -> None:
    programs = Programs(ring_problem(contract(instance).instance))
    ideals, best = all_ideals(programs.graph.producers), optimum(instance)
    assert solve_exact(programs, ideals, HIGH).value == solve_exact(programs, ideals, best).value == best
    assert solve_exact(programs, ideals, best - 1).value is None


def test_the_exact_program_is_needed() -> None:
    programs = Programs(ring_problem(contract(QUOTIENT).instance))
    necessary, sufficient = (
        programs.solve(rule, all_ideals(programs.graph.producers)).value for rule in ("n1", "path")
    )
    assert (necessary, optimum(QUOTIENT), sufficient) == (5, 6, 8)


@pytest.mark.parametrize("instance", [ORDER, SKIP, LINKS, QUOTIENT])
def test_the_station_search_refutes_a_tick_less(instance: RingInstance) -> None:
    search, best = StationSearch(ring_problem(contract(instance).instance)), optimum(instance)
    below, at = (search.decide(target, 1 << 10, 1 << 10) for target in (best - 1, best))
    assert below.chips is None and below.complete
    assert at.chips is not None


@pytest.mark.parametrize(("sram", "fits"), [(9, False), (10, True)])
def test_memory_is_propagated_to_the_byte(sram: int, fits: bool) -> None:
    """Weights of 8 bytes on either chip, and a tensor of a byte between them, which counts twice on both."""
    graph = OperationGraph(
        name="tight",
        operations=tuple(Operation(name=f"op{v}", kind="k", flop=1, weight_bytes=8) for v in range(2)),
        tensors=(Tensor(producer=0, readers=(1,), bytes=1),),
    )
    instance = RingInstance(name="tight", graph=graph, package=Package(chips=2, sram_bytes=sram))
    assert (brute_force(instance, check)[0] is not None) == fits
    assert Sampler(ring_problem(contract(instance).instance)).sample(1, 0).valid.all() == fits


#: Method -> the instance whose optimum it must prove, by what it says itself.
PROOFS: list[tuple[str, str, RingInstance]] = [
    ("ring/free", "program free", LINKS),
    ("ring/n1", "program n1", SKIP),
    ("ring/exact", "exact program", QUOTIENT),
    ("ring/stations", "station search", QUOTIENT),
    ("ring/auto", "exact program", QUOTIENT),
    ("ring/cpsat", "cpsat", QUOTIENT),
    ("ring/mip", "mip", QUOTIENT),
]


@pytest.mark.parametrize(
    ("method", "source", "instance"), PROOFS, ids=[f"{method}: {source}" for method, source, _ in PROOFS]
)
def test_a_method_reports_the_optimum_as_its_bound(method: str, source: str, instance: RingInstance) -> None:
    result = solve(instance, method=method, options=SolveOptions(threads=1, deterministic=True, time_limit=60.0))
    best = optimum(instance)
    values = {bound.source: bound.value for bound in sorted(result.bounds, key=lambda bound: bound.value)}
    assert values[source] == best == max(values.values())


def test_ring_bounds_reports_each_of_them() -> None:
    """Without an incumbent, so that it doesn't stop at the first that is tight. Packing and skip say nothing here."""
    instance = made((20, 20), [(0, 1)] * 6, link=20.0)
    run = Run(instance, SolveOptions(), check)
    bounds(instance, run)
    known = {
        "average": 20,
        "largest operation": 20,
        "station windows": 20,
    }
    assert {bound.source: bound.value for bound in run.bounds} == known | dict.fromkeys(
        ("prefix cuts", "program free", "program n1"), optimum(instance)
    )
