"""costs.py against the checker: two statements of one page, compared on random instances and mappings."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings

from chipmap.instances.ring.loads import loads, terms
from chipmap.instances.ring.problem import ring_problem
from chipmap.validation.ring import checker
from chipmap.validation.ring.facts import facts
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, random_solution, seeds


@settings(max_examples=of_all(400, few=160), derandomize=True, deadline=None)
@given(seeds)
def test_what_is_placed_and_what_it_costs(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, operations=12, chips=4)
    known, problem = facts(instance), ring_problem(instance)
    computing = problem.computing.nonzero()[0].tolist()
    assert list(known.computing) == computing
    assert [known.ticks[v] for v in computing] == problem.ticks[computing].tolist()
    alone, shared = dict(known.weights), dict[tuple[int, ...], int]()
    for constant in known.constants:
        if len(constant.read_by) == 1:
            alone[constant.read_by[0]] += constant.bytes
        elif constant.bytes:
            shared[constant.read_by] = shared.get(constant.read_by, 0) + constant.bytes
    assert [alone[v] for v in computing] == problem.weight_bytes[computing].tolist()
    assert {constant.readers: constant.bytes for constant in problem.shared} == shared
    assert [(s.made_by, s.read_by, s.bytes, s.ticks) for s in known.stored] == [
        (s.producer, s.readers, s.bytes, s.ticks) for s in problem.storages
    ]
    assert list(known.edges) == [tuple(edge) for edge in problem.edges.tolist()]


@settings(max_examples=of_all(400, few=160), derandomize=True, deadline=None)
@given(seeds)
def test_terms_and_loads_of_any_mapping(seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, operations=12, chips=4)
    solution = random_solution(random, instance)
    problem = ring_problem(instance)
    certificate = checker.check(instance, solution)
    assert tuple(certificate.terms.values()) == terms(problem, solution.chips)
    mapped = checker.Mapped(instance, facts(instance), solution.chips)
    on = loads(problem, solution.chips)
    assert checker.work(mapped) == on.work.tolist()
    assert checker.load(mapped) == on.load.tolist()
    weights, boundary = checker.memory(mapped)
    for chip, needed in enumerate(on.memory_bytes.tolist()):
        assert weights.get(chip, 0) + 2 * boundary.get(chip, 0) == needed
