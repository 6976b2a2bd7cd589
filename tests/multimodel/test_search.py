"""Evaluation, bounds and annealing on random instances, against the checker and all schedules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing import Annealing
from chipmap.heuristics.multimodel.any_windows import AnyWindows, Line, bound, product_ticks
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.bounds import least_objective
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.problem import multi_problem, placed, schedule, terms
from chipmap.validation.brute_force import brute_force, count
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import tiny_instance


def instances(seed: int, number: int, most: int = 3_000) -> Iterator[MultiInstance]:
    """Random instances with at most so many candidates."""
    random = Random(seed)
    made = (tiny_instance(random) for _ in range(1_000_000))
    return islice((one for one in made if count(one) <= most), number)


def test_the_evaluation_says_what_the_checker_says() -> None:
    """On every candidate of 60 instances that obeys C0 and C1: T1, T2 and objective."""
    compared = 0
    for instance in instances(1, 60):
        problem = multi_problem(instance)
        for solution in islice(candidates(instance), 0, 600, 5):
            certificate = check(instance, solution)
            if certificate.objective is not None:
                compared += 1
                time, energy = terms(problem, placed(problem, solution))
                assert (time, energy) == (certificate.terms["T1"], certificate.terms["T2"])
                assert problem.objective(time, energy) == certificate.objective
                assert time <= problem.most_time and energy <= problem.most_energy
    assert compared > 500, compared


def test_no_bound_exceeds_an_optimum() -> None:
    """Closed form and linear program, for three weights each."""
    for instance in instances(2, 60):
        optimum, _ = brute_force(instance, check)
        problem, lines = multi_problem(instance), list[Line]()
        program = AnyWindows(problem)
        for factor in (0.3, 1.0, 3.0):
            value = bound(program, lines, factor * program.least[1] / program.least[0])
            assert optimum is None or max(value, least_objective(problem)) <= optimum


def test_lines_hold_for_every_schedule() -> None:
    """rate · T1 + T2 of all valid schedules lies above the line of that rate, and EDP above what follows from it."""
    for instance in instances(3, 20, 800):
        problem = multi_problem(instance)
        program = AnyWindows(problem)
        rate = program.least[1] / program.least[0]
        line = program.line(rate)
        for solution in candidates(instance):
            certificate = check(instance, solution)
            found = certificate.terms
            if certificate.feasible:
                assert rate * found["T1"] + found["T2"] >= line.value
                assert -(-found["T1"] * found["T2"] // 10**9) >= product_ticks([line], program.least)


@pytest.mark.parametrize("seed", range(3))
def test_annealing_finds_valid_schedules_at_the_value_that_it_says(seed: int) -> None:
    """Better and better ones; with 3,000 moves the optimum in most instances without limits."""
    met = tried = 0
    for instance in instances(10 + seed, 12):
        problem, start = multi_problem(instance), whole_models(multi_problem(instance))
        if start is None:
            continue
        search, last = Annealing(problem, start, seed), None
        for windows in search.run(3_000, Deadline()):
            certificate = check(instance, schedule(problem, windows))
            assert {violation.label for violation in certificate.violations} <= {"C4"}
            if certificate.feasible:
                assert certificate.objective is not None and (last is None or certificate.objective <= last)
                last = certificate.objective
        optimum, _ = brute_force(instance, check)
        tried += optimum is not None
        met += (
            optimum is not None
            and min(last or 10**30, check(instance, schedule(problem, start)).objective or 0) <= optimum
        )
    assert met >= tried // 2 > 0
