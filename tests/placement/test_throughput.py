"""Objective throughput: units and nets, the program over ideals and the refutation, against brute force."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from ortools.sat.python import cp_model

from chipmap import SolveOptions, solve
from chipmap.deadline import Deadline, Stop
from chipmap.formulations.placement import cpsat_units
from chipmap.heuristics.engines.ideals import TooManyIdealsError
from chipmap.heuristics.placement.throughput.contiguous import best_chain, ideals_of
from chipmap.instances.placement import Pin, PlacementInstance, PlacementSolution, Task
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.load_dominance import joined_by_dominance
from chipmap.instances.placement.load_graph import LoadGraph, load_graph
from chipmap.instances.placement.problem import IntArray, placement_problem
from chipmap.validation.brute_force import brute_force, candidates
from chipmap.validation.placement.checker import check
from tests.lanes import of_all
from tests.placement.random_instances import made, throughput

#: Above all loads of these tests.
MUCH = 10**6


def random_load(random: Random, **task: Any) -> PlacementInstance:
    """Up to six operations on up to three devices of one or two classes, hosts and backward operations among them."""
    devices, memory = random.choice((2, 2, 3)), random.choice((None, None, 0.5, 0.7, 0.9))
    fields = {
        "objective": "throughput",
        "memory": "none" if memory is None else "static",
        "contiguous": random.random() < 0.5,
        "overlap": random.random() < 0.3,
        "weights": random.choice(("replicate", "variable")),
        **task,
    }
    instance = random_instance(
        operations=random.randint(3, 6 if devices == 2 else 5),
        devices=devices,
        classes=random.choice((1, 2)),
        edges=random.choice((0.3, 0.6)),
        weights=random.choice((0, 0, 1)),
        memory=memory,
        together=random.choice((0, 0, 2)),
        seed=random.randrange(10**6),
        task=fields,
        name="random",
    )
    classes = instance.system.classes
    if len(classes) > 1 and random.random() < 0.5:
        host = msgspec.structs.replace(classes[1], pays_transfers=False)
        instance = replaced(instance, system=msgspec.structs.replace(instance.system, classes=(classes[0], host)))
    computing = [one.name for one in instance.graph.operations if one.role == "compute"]
    if instance.task.contiguous and random.random() < 0.4:
        instance = replaced(instance, backward=tuple(computing[-2:]))
    if random.random() < 0.2:
        instance = replaced(instance, pins=(Pin(operation=computing[0], device="d1"),))
    zero = {
        kind: tuple(0.0 if v % 2 else time for v, time in enumerate(times)) for kind, times in instance.time_ns.items()
    }
    if random.random() < 0.4:
        instance = replaced(instance, time_ns=zero)
    return instance


def replaced(instance: PlacementInstance, **fields: Any) -> PlacementInstance:
    """``instance`` with other fields, without what was kept on it."""
    made_of = {name: getattr(instance, name) for name in instance.__struct_fields__ if name != "schema"}
    found = PlacementInstance(**(made_of | fields))
    found.check()
    return found


def valid_instances(number: int, seed: int, **task: Any) -> list[tuple[PlacementInstance, int | None]]:
    """Random instances with their optima (None: no placement)."""
    random, found = Random(seed), list[tuple[PlacementInstance, int | None]]()
    while len(found) < number:
        try:
            instance = random_load(random, **task)
        except Exception as error:  # a pin may contradict a group
            assert "device" in str(error)
            continue
        found.append((instance, brute_force(instance, check)[0]))
    return found


def refuted(instance: PlacementInstance, below: int | None) -> tuple[int | None, PlacementSolution | None]:
    """(optimum, placement) of the model on units; None where it has no placement."""
    built = cpsat_units.build(instance, below)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(built.native)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    if status == cp_model.INFEASIBLE:
        return None, None
    return int(solver.objective_value), built.decode(solver.value)


def largest_load(graph: LoadGraph, of_unit: IntArray) -> int:
    """T2 in ns of the units' devices [U]."""
    problem, kind = graph.problem, graph.kind_of
    work, moved = [0] * problem.devices, [0] * problem.devices
    for unit, d in enumerate(of_unit.tolist()):
        work[d] += int(graph.time[unit, kind[d]])
    for units, cost, _ in graph.nets:
        touched = {int(of_unit[unit]) for unit in units}
        for d in touched if len(touched) > 1 else ():
            moved[d] += cost if graph.paying[kind[d]] else 0
    both = max if problem.instance.task.overlap else sum
    return max(both(pair) for pair in zip(work, moved, strict=True))


def test_a_net_costs_what_the_checker_says() -> None:
    """The load of units and nets is T2 of the checker, for every placement that keeps units whole."""
    for instance, _ in valid_instances(40, 1):
        graph = load_graph(placement_problem(instance))
        for solution in candidates(instance):
            devices = graph.problem.devices_of(solution)
            of_unit = devices[[members[0] for members in graph.members]]
            if (graph.devices_of(of_unit) == devices).all():
                assert largest_load(graph, of_unit) == check(instance, solution).terms["T2"]


def test_refutation_is_brute_force() -> None:
    """The model finds the optimum without a limit and just above it, and nothing below."""
    seen = set[bool]()
    for instance, optimum in valid_instances(150, 2):
        seen.add(optimum is None)
        for below in (None, MUCH) if optimum is None else (None, MUCH, optimum + 1):
            value, solution = refuted(instance, below)
            assert value == optimum
            if solution is not None:
                certificate = check(instance, solution)
                assert certificate.feasible and certificate.objective == optimum
        if optimum is not None:
            assert refuted(instance, optimum) == (None, None)
    assert seen == {True, False}


def test_ideals_are_brute_force() -> None:
    """Blocks: the program's value is the optimum, with and without a limit; below the optimum it finds no chain.

    With backward operations of which no group has a forward one it is a lower bound.
    """
    exact, never = 0, Deadline()
    for instance, optimum in valid_instances(150, 3, contiguous=True):
        problem = placement_problem(instance)
        for below in (None, MUCH) if optimum is None else (None, MUCH, optimum + 1, optimum):
            graph = joined_by_dominance(problem, below)
            upper = MUCH if below is None else below
            chain = best_chain(graph, ideals_of(graph, 1000, never), upper, never) if graph.placeable else None
            if graph.free.any():
                assert optimum is None or below == optimum or (chain is not None and chain.load <= optimum)
                continue
            exact += 1
            if optimum is None or below == optimum:
                assert chain is None
            else:
                assert chain is not None and chain.load == optimum
                devices = problem.names_of(graph.devices_of(chain.devices))
                certificate = check(instance, PlacementSolution(devices=devices))
                assert certificate.feasible and certificate.objective == optimum
    assert exact > 200


def test_the_chain_of_links_proves_tiny_optima() -> None:
    """``placement/auto``, from the starts over ideals to the refutation: optimal, or proved infeasible."""
    for instance, optimum in valid_instances(of_all(25, few=8), 4):
        result = solve(instance, options=SolveOptions(time_limit=60, threads=1), isolate=False)
        assert result.objective == optimum
        assert result.status == ("infeasible" if optimum is None else "optimal")


def test_equal_devices_only_are_ordered() -> None:
    """d1 is of a class of its own, on which v0 is fast: an order of d0 before d1 would lose the optimum."""
    rows = [(5, 0, 1), (5, 0, 1), (5, 0, 1)]
    instance = made(rows, [(0, 1)], devices=3, task=throughput(memory="none"))
    kinds = ("gpu", "fast", "gpu")
    machines = tuple(
        msgspec.structs.replace(one, kind=kind) for one, kind in zip(instance.system.devices, kinds, strict=True)
    )
    fast = msgspec.structs.replace(instance.system.classes[0], name="fast")
    system = msgspec.structs.replace(instance.system, classes=(*instance.system.classes, fast), devices=machines)
    instance = replaced(instance, system=system, time_ns={"gpu": (9.0, 4.0, 4.0), "fast": (3.0, 9.0, 9.0)})
    optimum, _ = brute_force(instance, check)
    graph = load_graph(placement_problem(instance))
    assert graph.kinds == ((0, 2), (1,))
    assert refuted(instance, None)[0] == optimum
    # memory, a pin or a forbidden device tell devices of a class apart as well
    pinned = made(rows, [], task=throughput(memory="none"), pins=(Pin(operation="v2", device="d0"),))
    assert load_graph(placement_problem(pinned)).kinds == ((0,), (1,))
    assert refuted(pinned, None)[0] == brute_force(pinned, check)[0]


def test_limits_are_kept() -> None:
    """Independent operations have 2^n ideals: counted up to the limit; a deadline ends the sweep."""
    many = made([(3, 0, 0)] * 12, [], task=throughput(contiguous=True, memory="none"))
    graph = joined_by_dominance(placement_problem(many))
    with pytest.raises(TooManyIdealsError):
        ideals_of(graph, 4095, Deadline())
    ideals = ideals_of(graph, 4096, Deadline())
    assert len(ideals) == 4096
    with pytest.raises(Stop):
        best_chain(graph, ideals, MUCH, Deadline.after(0))
    assert solve(many, options=SolveOptions(time_limit=60, threads=1), isolate=False).objective == 18


def test_two_in_one_model_share_a_budget() -> None:
    """Two throughput instances in one CP-SAT model under a budget that both together just meet."""
    chain = made([(4, 0, 1), (4, 0, 1), (4, 0, 0)], [(0, 1), (1, 2)], task=throughput(memory="none"))
    apart = made([(6, 0, 0), (2, 0, 0), (3, 0, 0)], [], task=throughput(memory="none"))
    model = cp_model.CpModel()
    made_of = [
        cpsat_units.add_units(model, joined_by_dominance(placement_problem(one)), prefix=f"{i}:")
        for i, one in enumerate((chain, apart))
    ]
    optima = [brute_force(one, check)[0] or 0 for one in (chain, apart)]
    model.add(made_of[0].cost + made_of[1].cost <= sum(optima))
    model.minimize(made_of[0].cost)
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    for one, variables, optimum in zip((chain, apart), made_of, optima, strict=True):
        assert check(one, variables.decode(solver.value)).objective == optimum
    model.add(made_of[0].cost + made_of[1].cost <= sum(optima) - 1)
    assert solver.solve(model) == cp_model.INFEASIBLE


def test_task_of_the_restriction() -> None:
    """Blocks are a restriction: the program's chain never beats the optimum without C7."""
    free = made([(3, 0, 1), (5, 0, 1), (3, 0, 1), (5, 0, 0)], [(0, 1), (1, 2), (2, 3)], task=throughput(memory="none"))
    tied = replaced(free, task=Task(objective="throughput", memory="none", contiguous=True))
    value = solve(free, "placement/ideals", SolveOptions(threads=1), isolate=False).objective
    assert value == brute_force(tied, check)[0]
    assert value is not None and value >= (brute_force(free, check)[0] or 0)
