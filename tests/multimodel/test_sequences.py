"""Sequences of windows on tiny instances, against all schedules."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.multimodel.columns.sequences import Program, Sequences, falling
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.chain import start
from chipmap.methods.multimodel.programs import columns
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.lanes import of_all
from tests.multimodel.slow_tables import latencies
from tests.multimodel.test_columns import instances, program

#: More than any excess of a tiny instance.
ALL = 1e15


def pairs(instance: MultiInstance) -> list[tuple[int, int]]:
    """(T1, T2) of all schedules that obey C0 to C3 and C5."""
    found = []
    for solution in candidates(instance):
        certificate = check(instance, solution)
        if all(violation.label == "C4" for violation in certificate.violations):
            found.append((certificate.terms["T1"], certificate.terms["T2"]))
    return found


@pytest.mark.parametrize("exact", [True, False])
def test_the_best_sequences_are_the_best_schedules(exact: bool) -> None:
    """With exact tables the least weighted sum and the least product are those of all schedules, at any prices; with
    coarse ones they are no more."""
    seen = 0
    for k, instance in enumerate(instances(77, 30)):
        problem, rate = multi_problem(instance), (10.0, 300.0, 5_000.0)[k % 3]
        every, known = latencies(problem), pairs(instance)
        if not every or not known:
            continue
        edges = [*(one - 1 for one in every), every[-1]] if exact else sorted({0, *every[::3], every[-1]})
        made, random = program(problem, edges), np.random.default_rng(k)
        prices = made.start([random.uniform(0, 1e6, model.layers) for model in problem.models])
        prices = [own + step for own, step in zip(prices, random.uniform(-1e6, 1e6, len(prices)), strict=True)]
        listed = Sequences(made.pricing, problem.windows, prices, rate)
        windows = listed.windows(ALL, Deadline())
        assert windows is not None and windows.excess.min() > -1e-6 * abs(listed.base)
        nodes = Program(windows, problem.windows, listed.end, -listed.least)
        found = nodes.sequences(ALL, Deadline())
        assert found is not None
        sums, products = min(rate * t + e for t, e in known), min(t * e for t, e in known)
        value, product = listed.base + nodes.least, min(one.time * one.energy for one in found)
        if exact:
            assert value == pytest.approx(sums, rel=1e-9) and product == pytest.approx(products, rel=1e-9)
        else:
            assert value <= sums * (1 + 1e-9) and product <= products * (1 + 1e-9)
        few = nodes.sequences(nodes.least * (1 + 1e-9) + 1e-3, Deadline())
        assert few and min(rate * one.time + one.energy for one in few) == pytest.approx(value, rel=1e-9)
        assert all(len(one.codes) <= problem.windows and one.codes[-1] == listed.end for one in found)
        seen += 1
    assert seen > 15


def test_no_bound_exceeds_the_optimum() -> None:
    """Columns with sequences, from the instances' own tables; no schedule is better than the optimum."""
    for instance in instances(500, of_all(40, few=8)):
        optimum, _ = brute_force(instance, check)
        run = Run(instance, SolveOptions(deterministic=True), check)
        problem, turn = multi_problem(instance), Turn(run, run.deadline)
        start(problem, turn)
        with suppress(Stop):
            columns(problem, turn)
        if optimum is not None and run.lower is not None:
            assert run.lower.value <= optimum
            assert run.upper is None or run.upper >= optimum


def test_amounts_fall_within_groups() -> None:
    """The first of each group and each that is below all before it."""
    group, amounts = np.array([0, 0, 0, 1, 1, 2]), np.array([5.0, 6.0, 4.0, 9.0, 9.0, 9.5])
    assert falling(group, amounts).tolist() == [True, False, True, True, False, True]
    assert falling(np.zeros(0, np.int64), np.zeros(0)).tolist() == []
