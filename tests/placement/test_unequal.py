"""Devices that differ: bounds by prices hold and are as good as the linear program; no device is taken for another."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from ortools.sat.python import cp_model
from scipy.optimize import linprog

from chipmap import SolveOptions, solve
from chipmap.deadline import Deadline
from chipmap.formulations.placement import cpsat, cpsat_builder
from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices
from chipmap.formulations.placement.narrowing import alike
from chipmap.heuristics.placement.bounds import price_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.instances.placement import Device, Forbidden, Links, Pin, PlacementInstance, Route
from chipmap.instances.placement.generators import random_instance, training_step
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.lanes import of_all
from tests.placement.random_instances import made, tiny_instance
from tests.placement.test_narrowing import unequal as two_classes


def average(problem: PlacementProblem) -> int:
    """The least times of all operations over the number of devices, rounded up."""
    return -(-int(bounds.least_times(problem).sum()) // problem.devices)


def program(problem: PlacementProblem) -> float:
    """The least T such that all groups, in fractions, work for T at most on each device."""
    groups, count = problem.groups, problem.devices
    time = np.array([problem.time[members].sum(axis=0) for members in groups], dtype=float)
    open_ = np.array([problem.allowed[members].all(axis=0) for members in groups])
    cost = np.zeros(len(groups) * count + 1)
    cost[-1] = 1.0
    loads = np.zeros((count, len(cost)))
    for d in range(count):
        loads[d, d:-1:count] = time[:, d]
        loads[d, -1] = -1.0
    whole = np.zeros((len(groups), len(cost)))
    for g in range(len(groups)):
        whole[g, g * count : (g + 1) * count] = 1.0
    limits = [(0, 1 if free else 0) for row in open_ for free in row]
    found = linprog(cost, loads, np.zeros(count), whole, np.ones(len(groups)), [*limits, (0, None)])
    return float(found.fun)


def test_prices_are_bounds_of_random_instances() -> None:
    """Of both objectives, on up to three classes: never above the optimum, and above the least times' share in many."""
    random, compared, higher = Random(11), 0, 0
    while compared < of_all(120, few=50):
        if random.random() < 0.5:
            instance = tiny_instance(random)
        else:
            task = {"objective": random.choice(("step_time", "throughput")), "memory": "none"}
            classes = random.choice((2, 3))
            instance = random_instance(
                operations=4, devices=3, classes=classes, seed=random.randrange(10**6), task=task
            )
        problem = placement_problem(instance)
        optimum, _ = brute_force(instance, check)
        if optimum is None or price_bound.alike(problem):
            continue
        compared += 1
        value = price_bound.work(problem)
        assert average(problem) <= value <= optimum, instance
        higher += value > average(problem)
        if problem.timed:
            w = bounds.heads_and_tails(problem, Deadline())
            assert price_bound.interval(problem, w) <= optimum, instance
    assert higher > of_all(36, few=12)


def test_prices_are_as_good_as_the_linear_program() -> None:
    """Work shared out in fractions, on two and three classes: within a hundredth of the program, not above it."""
    random = Random(12)
    for number in range(40):
        instance = random_instance(
            operations=random.randint(10, 60),
            devices=random.randint(2, 6),
            classes=2 + number % 2,
            together=random.choice((0, 3)),
            seed=random.randrange(10**6),
            task={"memory": "none"},
        )
        problem, value = placement_problem(instance), price_bound.work(placement_problem(instance))
        exact = program(problem)
        assert value <= exact + 1 and value >= 0.98 * exact, (value, exact)


def test_intervals_of_equal_devices_are_those_of_the_bounds() -> None:
    """With one class the prices are equal, and the bound by them is the plain one."""
    for seed in range(20):
        problem = placement_problem(random_instance(operations=12, devices=3, edges=0.2, seed=seed))
        w = bounds.heads_and_tails(problem, Deadline())
        late = [(h, (w.head >= h) & (w.tail >= t), t) for h in w.head.tolist() for t in w.tail.tolist()]
        plain = max(h - (-int(w.time[some].sum()) // 3) + t for h, some, t in late if some.any())
        assert price_bound.interval(problem, w) == plain
        assert price_bound.work(problem) == average(problem)


def test_a_slow_host_counts_for_what_it_can_do() -> None:
    """A CPU beside two P100 does a thirteenth of the large products at best: the bound is far above a third of all."""
    step = training_step("transformer-xl", {"layers": 1, "segments": 1}, devices=3, system="cpu-p100-pcie")
    problem = placement_problem(step)
    assert 1.2 * average(problem) < price_bound.work(problem) <= program(problem) + 1


def test_operations_that_a_class_may_not_run() -> None:
    """Prices look at allowed devices only: here all of the work is on one of them."""
    instance: PlacementInstance = two_classes()
    names = tuple(one.name for one in instance.graph.operations)
    kept = instance.replace(forbidden=tuple(Forbidden(operation=name, devices=("d1",)) for name in names))
    problem = placement_problem(kept)
    assert price_bound.work(problem) == brute_force(kept, check)[0] == 11


def test_huge_times_do_not_overflow() -> None:
    instance = made([(10**12, 0, 0)] * 3, [])
    slow = instance.system.classes[0].replace(name="slow")
    machines = (instance.system.devices[0], Device(name="d1", kind="slow"))
    system = instance.system.replace(classes=(instance.system.classes[0], slow), devices=machines)
    times = {"gpu": (1e12, 1e12, 1e12), "slow": (1e12, 1e12, 5e11)}
    problem = placement_problem(instance.replace(system=system, time_ns=times))
    assert 1.24e12 < price_bound.work(problem) <= program(problem) + 1


def two(**changes: Any) -> PlacementInstance:
    """Three operations on two devices that differ in nothing but ``changes``: the large one suits d1 better."""
    return made([(9, 4, 2), (4, 1, 2), (3, 1, 0)], [(0, 2), (1, 2)], **changes)


def different() -> dict[str, PlacementInstance]:
    """Devices that differ, by class, memory, pins, forbidden operations, single routes and switches."""
    plain = two(task={"memory": "static"}, memory=20)
    devices = plain.system.devices
    small = plain.replace(
        system=plain.system.replace(devices=(msgspec.structs.replace(devices[0], memory_bytes=5), devices[1]))
    )
    routes = (Route(source="d0", target="d1", bytes_per_ns=1.0), Route(source="d1", target="d0", latency_ns=7.0))
    hosts = tuple(Device(name=f"d{d}", kind="gpu", host=host) for d, host in enumerate(("left", "left", "right")))
    links = Links(kind="host", bytes_per_ns=1.0)
    fan = made([(5, 0, 4), (5, 0, 4), (5, 0, 4), (1, 0, 0)], [(0, 3), (1, 3), (2, 3)], devices=3, links=links)
    return {
        "class": two_classes(),
        "memory": small,
        "pin": two(pins=(Pin(operation="v0", device="d1"),)),
        "forbidden": two(forbidden=(Forbidden(operation="v0", devices=("d0",)),)),
        "routes": plain.replace(system=plain.system.replace(links=None, routes=routes)),
        "host": fan.replace(system=fan.system.replace(devices=hosts)),
    }


@pytest.mark.parametrize("what", sorted(different()))
def test_devices_that_differ_are_never_numbered(what: str) -> None:
    """They aren't taken for equal, and the model that numbers equal ones has the optimum of all placements."""
    instance = different()[what]
    instance.check()
    assert not alike(placement_problem(instance))
    optimum, _ = brute_force(instance, check)
    model, solver = cpsat.build(instance, PlacementCpChoices(symmetry=True)), cp_model.CpSolver()
    assert solver.solve(model.native) == cp_model.OPTIMAL and solver.objective_value == optimum


def lost(instance: PlacementInstance, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether numbering the devices all the same would lose the optimum."""
    optimum, _ = brute_force(instance, check)
    with monkeypatch.context() as patch:
        patch.setattr(cpsat_builder, "alike", lambda problem: True)
        model, solver = cpsat.build(instance, PlacementCpChoices(symmetry=True)), cp_model.CpSolver()
        status = solver.solve(model.native)
    return status != cp_model.OPTIMAL or solver.objective_value != optimum


def test_numbering_them_all_the_same_would_lose_optima(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above fails where symmetry is broken among devices that differ."""
    assert {what for what, instance in different().items() if lost(instance, monkeypatch)} >= {
        "class",
        "memory",
        "pin",
        "forbidden",
    }


@pytest.mark.parametrize("objective", ["step_time", "throughput"])
def test_the_best_chain_is_exact_on_tiny_instances_of_several_classes(objective: str) -> None:
    """Two or three classes, a host among them, devices with memories of their own: brute force's optimum, proved."""
    random, solved, differ = Random(14), 0, 0
    while solved < of_all(10, few=3):
        task = {"objective": objective, "memory": random.choice(("none", "static"))}
        number, classes = random.randint(2, 3), random.choice((2, 3))
        instance = random_instance(
            operations=4, devices=number, classes=min(classes, number), seed=random.randrange(10**6), task=task,
            links=random.choice(("pair", "bus", "duplex", "host")), memory=random.choice((None, 0.7, 1.0)),
        )  # fmt: skip
        system = instance.system
        kinds = (*system.classes[:-1], system.classes[-1].replace(pays_transfers=random.random() < 0.5))
        devices = tuple(
            msgspec.structs.replace(one, memory_bytes=one.memory_bytes and one.memory_bytes + random.randint(0, 3))
            for one in system.devices
        )
        instance = instance.replace(system=system.replace(classes=kinds, devices=devices))
        optimum, _ = brute_force(instance, check)
        result = solve(instance, options=SolveOptions(time_limit=60, threads=1), isolate=False)
        assert result.objective == optimum
        assert result.status == ("infeasible" if optimum is None else "optimal")
        solved += 1
        differ += optimum is not None and not price_bound.alike(placement_problem(instance))
    assert 2 * differ > solved
