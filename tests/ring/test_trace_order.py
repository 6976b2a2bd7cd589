"""Cuts move to where modules begin as long as that costs nothing."""

from __future__ import annotations

from random import Random

import chipmap
from chipmap.heuristics.ring.greedy import greedy as fill
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.instance import Package, RingInstance
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring.trace_order import at_modules
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from tests.ring.random_instances import random_instance


def layers(times: list[float], names: list[str], edges: list[tuple[int, int]], chips: int) -> RingInstance:
    """Operations of these modules that take so long, on free links."""
    operations = tuple(Operation(name=name, kind="mm", flop=0) for name in names)
    tensors = tuple(Tensor(producer=u, readers=(v,), bytes=1) for u, v in edges)
    graph = OperationGraph(name="layers", operations=operations, tensors=tensors)
    package = Package(chips=chips, link_bytes_per_ns=None)
    return RingInstance.make(name="layers", graph=graph, package=package, time_ns=times)


NAMES = ["embed.a", "layer.0.a", "layer.0.b", "layer.1.a", "layer.1.b"]
LINE = [(i, i + 1) for i in range(4)]


def test_cuts_move_to_modules_where_that_costs_nothing() -> None:
    """The longest operation allows for cuts on either side of another one: the module's beginning is taken."""
    instance = layers([10, 1, 1, 1, 1], NAMES, LINE, 3)
    inside = lift(instance, dict(enumerate([0, 1, 1, 1, 2])))
    moved = at_modules(instance, inside)
    assert moved is not None and moved.chips == (0, 1, 1, 2, 2)
    assert at_modules(instance, moved) is None
    dear = layers([1, 1, 9, 9, 1], NAMES, LINE, 2)
    assert at_modules(dear, lift(dear, dict(enumerate([0, 0, 0, 1, 1])))) is None


def test_methods_tell_mappings_that_runtimes_can_say() -> None:
    """The longest operation is a chip of its own: of the best mappings the one whose stages are lists of modules."""
    instance = layers([10, 1, 1, 5, 3], NAMES, LINE, 3)
    for method in ("ring/greedy", "ring/exact", "ring/auto"):
        result = chipmap.solve(instance, method)
        assert result.objective == 1000 and list((result.solution or {})["chips"]) == [0, 1, 1, 2, 2]


def test_no_mapping_gets_worse() -> None:
    """Random instances in random modules: what is moved takes no longer, and something is moved now and then."""
    moved = 0
    for seed in range(60):
        instance = random_instance(Random(seed), side=False)
        scopes = sorted(f"layer.{Random(seed + v).randrange(3)}" for v in range(len(instance.graph.operations)))
        instance = instance.replace(scopes=scopes, constraints=("C1", "C2"))
        problem = ring_problem(instance)
        chips = fill(problem)
        if chips is None:
            continue
        found = lift(instance, {v: chip for v, chip in enumerate(chips) if chip >= 0})
        other = at_modules(instance, found)
        if other is not None:
            moved += 1
            assert max(terms(problem, other.chips)) <= max(terms(problem, found.chips))
    assert moved
