"""Throughput by prices of units and by states, against brute force from the page."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np

from chipmap import SolveOptions
from chipmap.deadline import Deadline
from chipmap.heuristics.placement.throughput.columns import Columns, Devices, columns
from chipmap.heuristics.placement.throughput.cut_budget import cut_budget
from chipmap.heuristics.placement.throughput.frontier import placed
from chipmap.heuristics.placement.throughput.sweep import sweep
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.load_graph import LoadGraph, load_graph
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.columns import by_columns
from chipmap.run import Run
from chipmap.solvers.growing_rows import UnitPrices
from chipmap.validation.placement.checker import check
from tests.lanes import of_all
from tests.placement.random_instances import CHAIN, made, throughput
from tests.placement.test_throughput import valid_instances


def priced(graph: LoadGraph, target: int) -> tuple[Devices, Columns]:
    """The devices for loads below a target, labelled with the best prices, and these prices."""
    devices = Devices(sweep(graph, target), Deadline())
    found = columns(devices, np.ones(graph.units), [], Deadline(), UnitPrices)
    devices.label(found.prices, Deadline())
    return devices, found


def load(graph: LoadGraph, kind: int, inside: tuple[int, ...]) -> int:
    """What a set of units loads a device of a kind with."""
    cut = [cost for units, cost, _ in graph.nets if 0 < len(set(units) & set(inside)) < len(units)]
    return int(graph.time[list(inside), kind].sum()) + (sum(cut) if graph.paying[kind] else 0)


def test_the_most_that_a_device_holds_is_that_of_all_sets() -> None:
    """All subsets of the units, on a device of each kind, at random prices; the budget for cuts never binds here."""
    random, compared = Random(31), 0
    for instance, _ in valid_instances(of_all(40, few=20), 31, overlap=False):
        graph = load_graph(placement_problem(instance))
        if not graph.placeable or instance.task.contiguous:
            continue
        total = int(graph.time.max(axis=1).sum()) + sum(cost for _, cost, _ in graph.nets)
        devices, prices = Devices(sweep(graph, 3 * total + 1), Deadline()), np.zeros(graph.units, dtype=np.int64)
        prices[:] = [random.randrange(9) for _ in range(graph.units)]
        devices.label(prices, Deadline())
        for k, pricing in enumerate(devices.kinds):
            loads, values = pricing.best()
            able = np.flatnonzero(graph.allowed[:, k]).tolist()
            sets = [some for size in range(len(able) + 1) for some in combinations(able, size)]
            least, units = pricing.units()
            assert int(prices[units].sum()) == values[-1]
            assert least == loads[-1] == load(graph, k, tuple(units.tolist()))
            for most in (0, 5, 12, 30, 3 * total):
                value = max((int(prices[list(some)].sum()) for some in sets if load(graph, k, some) <= most), default=0)
                at = int(np.searchsorted(loads, most, side="right")) - 1
                assert value == (values[at] if at >= 0 else 0)
                compared += 1
    assert compared > 100


def test_no_bound_is_above_the_optimum_and_states_find_it() -> None:
    """From targets above the optimum states find it, and below it all are refuted, where nothing else binds."""
    found = 0
    for instance, optimum in valid_instances(of_all(160, few=60), 32, overlap=False, memory="none"):
        problem = placement_problem(instance)
        if not optimum or instance.task.contiguous or problem.apart:
            continue
        graph = load_graph(problem)
        for target in (optimum, optimum + 1, optimum + 9):
            if cut_budget(graph, target).budget < 0:
                assert target <= optimum  # the work alone refutes it
                continue
            devices, prices = priced(graph, target)
            plain = placed(Devices(sweep(graph, target), Deadline()), None, 10_000, False, True, Deadline())
            assert plain.whole and plain.load == (None if target == optimum else optimum)
            assert min(target, prices.bound) <= optimum
            if prices.bound >= target:
                continue
            for merge in (False, True):
                states = placed(devices, prices.prices, 10_000, merge, not merge, Deadline())
                assert states.whole and states.load == (None if target == optimum else optimum)
                if states.of_unit is not None:
                    solution = problem.solution(graph.devices_of(states.of_unit))
                    assert check(instance, solution).objective == optimum
            narrow = placed(devices, prices.prices, 2, True, False, Deadline())
            assert target > optimum or narrow.load is None or not narrow.whole
            assert target == optimum or narrow.load is not None
            found += 1
    assert found > 20


def linked(instance: PlacementInstance) -> Run:
    """The link of the chain, from all operations on the first device."""
    run = Run(instance, SolveOptions(threads=1), check)
    problem = placement_problem(instance)
    run.solution(problem.solution(np.zeros(problem.operations, dtype=np.int64)), "one device")
    by_columns(ChainState(problem), Turn(run, run.deadline))
    return run


def test_the_link_never_says_too_much() -> None:
    """With memory, pins, hosts and operations that are apart as well."""
    proved = 0
    for instance, optimum in valid_instances(of_all(160, few=60), 33, overlap=False):
        if optimum is None:
            continue
        run = linked(instance)
        if run.lower is not None:
            assert run.lower.value <= optimum
            proved += run.lower.value == optimum == run.upper
    assert proved > 8


def test_by_hand() -> None:
    """Three operations of 10 ns in a row, tensors of 4 ns, two devices: below 24 ns each holds one at most."""
    instance = made([(10, 0, 4)] * 3, CHAIN, task=throughput(memory="none"))
    _, found = priced(load_graph(placement_problem(instance)), 24)
    assert found.share > 1 and found.bound == 24
    run = linked(instance)
    assert run.lower is not None and run.upper == run.lower.value == 24
