"""The contraction loses nothing: same optimum, and mappings go both ways at the same objective."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import contract, lift
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, seeds


@settings(max_examples=of_all(30, few=12), derandomize=True, deadline=None)
@given(seeds)
def test_same_optimum_as_the_original(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, operations=8, chips=3)
    contraction = contract(instance)
    objective, solution = brute_force(instance, check)
    contracted, small = brute_force(contraction.instance, check)
    assert contracted == objective
    if solution is not None and small is not None:
        lifted = check(instance, contraction.lift(small))
        assert lifted.feasible and lifted.objective == objective
        lowered = check(contraction.instance, contraction.lower(solution))
        assert lowered.feasible and lowered.objective == objective


@settings(max_examples=of_all(150, few=60), derandomize=True, deadline=None)
@given(seeds)
def test_every_contracted_mapping_lifts_with_its_verdict_and_terms(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, operations=8, chips=3)
    contraction = contract(instance)
    chips = [random.randrange(instance.package.chips) for _ in contraction.groups]
    first = len(contraction.members) - len(chips)
    small = lift(contraction.instance, dict(enumerate(chips, start=first)))
    assert contraction.lift(small) == contraction.lift_computing(chips)
    one, other = check(contraction.instance, small), check(instance, contraction.lift(small))
    assert one.terms == other.terms
    assert {v.label for v in one.violations} == {v.label for v in other.violations}
    assert contraction.lower(contraction.lift(small)).chips == small.chips


@settings(max_examples=of_all(100, few=40), derandomize=True, deadline=None)
@given(seeds)
def test_lift_of_a_valid_mapping_changes_no_verdict(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, operations=8, chips=3)
    _, solution = brute_force(instance, check)
    if solution is None:
        return
    problem = contract(instance)
    computing = {v: solution.chips[v] for group in problem.members for v in group}
    assert check(instance, lift(instance, computing)).terms == check(instance, solution).terms
    assert check(instance, lift(instance, computing)).feasible


@settings(max_examples=of_all(100, few=40), derandomize=True, deadline=None)
@given(seeds)
def test_a_contracted_instance_is_valid_and_its_report_adds_up(seed: int) -> None:
    instance = random_instance(Random(seed), operations=8, chips=3)
    contraction = contract(instance)
    if contraction.members:
        contraction.instance.check()
    report = dict(contraction.report)
    assert report.pop("operations") == sum(report.values()) == len(instance.graph.operations)
    assert report["left"] == len(contraction.groups)
    again = contract(contraction.instance)
    assert again.instance.graph == contraction.instance.graph and again.report["left"] == report["left"]


@pytest.mark.parametrize("role", ["constant", "input"])
def test_what_precedes_the_run_reads_nothing_of_it(role: str) -> None:
    """Else C1 would bind the two computing operations through it, and the contraction would lose that edge."""
    graph = OperationGraph(
        name="late",
        operations=(
            Operation(name="a", kind="k"),
            Operation(name="v", kind="k", role="view"),
            Operation(name="late", kind="k", role=role),  # type: ignore[arg-type]
            Operation(name="b", kind="k"),
        ),
        tensors=tuple(Tensor(producer=u, readers=(u + 1,)) for u in range(3)),
    )
    with pytest.raises(InputError, match="'late' has role"):
        graph.check()
    early = graph.replace(operations=[graph.operations[0].replace(role="constant"), *graph.operations[1:]])
    if role == "constant":
        early.check()


@pytest.mark.parametrize("ticks", [1, 7, 10**11 - 1, 10**11, 10**12 + 1, 3 * 10**12 + 7, 2**52])
def test_times_of_any_size_survive(ticks: int) -> None:
    graph = OperationGraph(name="one", operations=(Operation(name="a", kind="k", flop=ticks),))
    instance = RingInstance(name="one", graph=graph, package=Package(chips=2, flop_per_ns=100.0))
    assert ring_problem(instance).total_ticks == ticks
    assert ring_problem(contract(instance).instance).total_ticks == ticks
