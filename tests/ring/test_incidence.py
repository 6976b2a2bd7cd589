"""Who makes and reads what, as arrays, against the problem's own records."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from chipmap.heuristics.ring.incidence import Rows, in_rows, incidence
from chipmap.instances.ring.problem import ring_problem
from tests.ring.random_instances import random_instance


def lists(rows: Rows) -> list[list[int]]:
    ends = rows.first.tolist()
    return [rows.items[a:b].tolist() for a, b in pairwise(ends)]


def test_lists_in_a_row() -> None:
    assert lists(in_rows([[3, 1], [], [2]])) == [[3, 1], [], [2]]
    assert lists(in_rows([])) == []


@pytest.mark.parametrize("seed", range(20))
def test_it_says_what_the_problem_says(seed: int) -> None:
    """Views, constants and inputs among the operations; those that compute have numbers of their own."""
    problem = ring_problem(random_instance(Random(seed), operations=8))
    operations = [v for v in problem.order if problem.computing[v]]
    on = incidence(problem, operations)
    assert [operations[p] for p in on.producer.tolist()] == [s.producer for s in problem.storages]
    assert on.ticks.tolist() == [s.ticks for s in problem.storages]
    assert on.bytes.tolist() == [s.bytes for s in problem.storages]
    assert on.shared_bytes.tolist() == [s.bytes for s in problem.shared]
    for rows, records in ((on.readers, problem.storages), (on.shared_readers, problem.shared)):
        assert [tuple(operations[v] for v in row) for row in lists(rows)] == [one.readers for one in records]
    for i, v in enumerate(operations):
        assert lists(on.made)[i] == [s for s, one in enumerate(problem.storages) if one.producer == v]
        assert lists(on.reads)[i] == [s for s, one in enumerate(problem.storages) if v in one.readers]
        assert lists(on.shared)[i] == [s for s, one in enumerate(problem.shared) if v in one.readers]
