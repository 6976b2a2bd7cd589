"""Choices of degrees in turn: each is solved knowing the bounds of all others, so that a bound is one of all."""

from __future__ import annotations

from typing import Any, cast

from chipmap.methods.dataflow.cases import DegreesCase, solve_each
from tests.test_run import Answer, new_run


def test_each_is_given_the_bounds_of_all_others() -> None:
    todo = [DegreesCase(cast(Any, None), bound) for bound in (3, 4, 7)]
    seen = list[tuple[int, list[int], int]]()

    def solve(case: DegreesCase, others: list[int], left: int) -> list[int]:
        seen.append((case.bound, others, left))
        return [] if case.bound == 4 else [10 * case.bound]

    assert solve_each(todo, new_run(), solve, proved=[99]) == [99, 30, 70]
    assert seen == [(3, [99, 4, 7], 2), (4, [99, 30, 7], 1), (7, [99, 30], 0)]


def test_one_that_is_no_better_than_the_incumbent_keeps_its_bound() -> None:
    run = new_run()
    run.solution(Answer(value=4), "s")
    todo = [DegreesCase(cast(Any, None), bound) for bound in (3, 4, 7)]
    assert solve_each(todo, run, lambda case, others, left: [case.bound + 1]) == [4, 4, 7]
