"""Minimum cuts over the ideals of the flow graph, and instances in which cuts matter."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap.heuristics.engines.ideals import all_ideals, bits
from chipmap.heuristics.ring.bounds.closure_cuts import ClosureCuts
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check

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
    place = np.array(graph.operation)
    least, smallest, greatest = ClosureCuts(problem, graph).least(place == one, place == other)
    assert least == min(loads)
    for ideal in (smallest, greatest):
        assert ClosureCuts(problem, graph).cut(ideal) == least
