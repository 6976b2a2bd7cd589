"""The greedy rows, the kernels by themselves, and branch and bound over all placements."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.bounds.single_kernel import single_kernels
from chipmap.heuristics.wafer.exhaustive import TooLargeError
from chipmap.heuristics.wafer.exhaustive import solve as exhaust
from chipmap.heuristics.wafer.rows.greedy import greedy
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import depth_first_order, evaluate, wafer_problem
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.wafer.candidates import candidates, count
from chipmap.validation.wafer.checker import check
from tests.wafer.random_instances import A, B, free, made, tiny_instance


def shipped(name: str) -> WaferInstance:
    instance = read(f"wafer/{name}")
    assert isinstance(instance, WaferInstance)
    return instance


@pytest.mark.parametrize("name", ["ispd2020-K"])
def test_greedy_rows_are_valid_and_get_better(name: str) -> None:
    instance = shipped(name)
    problem = wafer_problem(instance)
    found, reasons = single_kernels(problem)
    assert not reasons
    plans = [plan for plan in greedy(problem, found) if plan is not None]
    scores = [evaluate(problem, plan).score for plan in plans]
    assert scores and scores == sorted(scores, reverse=True)
    for plan in plans[-2:]:
        certificate = check(instance, WaferSolution(placements=tuple(plan)))
        assert certificate.feasible and certificate.objective == evaluate(problem, plan).score
    assert not [plan for plan in greedy(problem, found, scores[-1]) if plan is not None]


def test_a_single_kernel_has_its_least_time() -> None:
    for name, instance in free().items():
        problem = wafer_problem(instance)
        found, reasons = single_kernels(problem)
        assert not reasons, name
        for i, t in enumerate(problem.types.tolist()):
            one = instance.replace(
                kernels=[next(k for k in instance.kernels if k.name == problem.names[i])],
                edges=[],
                weights={"time": 1, "wire": 0, "adapter": 0},
            )
            assert brute_force(one, check)[0] == found[t].time, name


def test_every_kernel_that_has_no_place_is_named() -> None:
    cases = {
        "C1": made(2, 10, "", {"b": B, "block": {"kind": "cblock", "H": 2, "W": 2, "F": 4}}),
        "C3": made(6, 3, "", {"a": A, "b": B}, memory_words=7),
        "C2": made(5, 2, "", {"a": A, "b": B}),
    }
    for label, instance in cases.items():
        _, reasons = single_kernels(wafer_problem(instance))
        assert {reason.label for reason in reasons} == {label}
        assert all(reason.demand > reason.limit and reason.remedies and reason.message for reason in reasons)
        result = solve(instance, "greedy", SolveOptions(warm_start="none"))
        assert result.status == "infeasible" and len(result.infeasibility) == len(reasons)
    named = [reason.message for reason in single_kernels(wafer_problem(cases["C1"]))[1]]
    assert named == ["kernel 'block' covers at least 12 x 2 tiles; the fabric has 2 x 10"]


def test_the_words_that_a_kernel_needs_are_the_least() -> None:
    instance = made(6, 3, "", {"a": A}, memory_words=7)
    (reason,) = single_kernels(wafer_problem(instance))[1]
    enough = instance.replace(fabric=instance.fabric.replace(memory_words=round(reason.demand)))
    short = instance.replace(fabric=instance.fabric.replace(memory_words=round(reason.demand) - 1))
    assert not single_kernels(wafer_problem(enough))[1] and single_kernels(wafer_problem(short))[1]


def test_depth_first_orders_hold_every_kernel_once() -> None:
    for name in ("ispd2020-C", "ispd2020-M", "gpt2"):
        problem = wafer_problem(shipped(name))
        order = depth_first_order(problem)
        rank = {v: i for i, v in enumerate(order)}
        assert sorted(order) == list(range(problem.n))
        assert all(rank[u] < rank[v] for u, v in problem.edges.tolist())
    cycle = wafer_problem(made(9, 2, "ab bc ca", {"a": A, "b": B, "c": B}))
    assert sorted(depth_first_order(cycle)) == [0, 1, 2]


def test_branch_and_bound_says_what_brute_force_says() -> None:
    tried = 0
    for seed in range(60):
        instance = tiny_instance(Random(seed))
        if count(instance) > 120:
            continue
        tried += 1
        optimum, _ = brute_force(instance, check)
        value, plan = exhaust(wafer_problem(instance), None)
        assert value == optimum, seed
        if plan is not None:
            certificate = check(instance, WaferSolution(placements=tuple(plan)))
            assert certificate.feasible and certificate.objective == optimum
            assert exhaust(wafer_problem(instance), optimum) == (None, None)
    assert tried >= 20


def test_what_brute_force_leaves_out_is_no_better() -> None:
    """All placements of both kernels, mirrored ones and overlapping ones included."""
    instance = made(6, 3, "ab", {"a": A, "b": B}, wire_weight=5, adapter_weight=3)
    problem = wafer_problem(instance)
    from chipmap.heuristics.wafer.exhaustive import Options

    best = None
    first, second = (Options(problem, i, Deadline()).placements for i in (0, 1))
    for _, a in first:
        for _, b in second:
            certificate = check(instance, WaferSolution(placements=(a, b)))
            if certificate.feasible and certificate.objective is not None:
                best = certificate.objective if best is None else min(best, certificate.objective)
    assert best == brute_force(instance, check)[0]
    assert len(first) * len(second) > sum(1 for _ in candidates(instance)) == count(instance)


def test_larger_instances_are_refused_by_the_exhaustive_method() -> None:
    with pytest.raises(TooLargeError):
        exhaust(wafer_problem(shipped("ispd2020-K")), None)
    assert count(shipped("ispd2020-K")) > 10**9
    alone_on_a_large_fabric = made(300, 300, "", {"a": A})
    with pytest.raises(InputError, match="brute force would try"):
        brute_force(alone_on_a_large_fabric, check)
