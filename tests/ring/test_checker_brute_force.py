"""Brute force tries every mapping, and refuses what would take too long."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.instances.ring import Package, RingInstance
from chipmap.networks.graph import Operation, OperationGraph
from chipmap.records import InputError
from chipmap.validation.brute_force import LIMIT, brute_force
from chipmap.validation.ring.candidates import candidates, count
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.facts import facts
from tests.ring.random_instances import random_instance


def independent(flops: tuple[int, ...], chips: int) -> RingInstance:
    """Operations that don't depend on each other, 1 ns per FLOP."""
    operations = tuple(Operation(name=f"op{v}", kind="k", flop=flop) for v, flop in enumerate(flops))
    graph = OperationGraph(name="independent", operations=operations)
    return RingInstance(name="independent", graph=graph, package=Package(chips=chips, flop_per_ns=1.0))


def test_the_optimum_of_a_partition_problem() -> None:
    objective, solution = brute_force(independent((4, 5, 6, 7, 8), 2), check)
    assert objective == 1500 and solution is not None
    assert check(independent((4, 5, 6, 7, 8), 2), solution).objective == 1500


def test_nothing_is_valid_when_memory_is_short() -> None:
    instance = independent((1, 2), 2)
    heavy = instance.replace(
        graph=instance.graph.replace(
            operations=[
                {"name": "a", "kind": "k", "weight_bytes": 3},
                {"name": "b", "kind": "k", "weight_bytes": 1},
            ]
        ),
        package=Package(chips=2, sram_bytes=2),
    )
    assert brute_force(heavy, check) == (None, None)


def test_too_many_mappings_are_refused() -> None:
    with pytest.raises(InputError, match=str(36**5)):
        brute_force(independent((1,) * 5, 36), check)
    assert LIMIT < 36**5


@pytest.mark.parametrize("seed", range(20))
def test_candidates_are_all_mappings_once_and_break_c1_only_between_computing_operations(seed: int) -> None:
    instance = random_instance(Random(seed), operations=7, chips=3)
    computing = facts(instance).computing
    tried = [tuple(solution.chips[v] for v in computing) for solution in candidates(instance)]
    assert len(tried) == len(set(tried)) == count(instance)
    strict = instance.replace(constraints=["C1"], pins=[], forbidden=[], together=[])
    flows = [(stored.made_by, v) for stored in facts(strict).stored for v in stored.read_by]
    for solution in candidates(strict):
        assert check(strict, solution).feasible == all(solution.chips[u] <= solution.chips[v] for u, v in flows)
