"""Each lower bound against the optimum by brute force; heads and tails against an optimal schedule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds import ancestors, price_bound, same_device_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.bounds.packing import bins, packing
from chipmap.instances.placement import Links, PlacementInstance
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import made, tiny_instance


def solved(seed: int, number: int) -> Iterator[tuple[PlacementInstance, PlacementProblem, int]]:
    """Random instances of step time with their optima."""
    random = Random(seed)
    while number:
        instance = tiny_instance(random)
        optimum, _ = brute_force(instance, check)
        if optimum is not None and instance.task.objective == "step_time":
            number -= 1
            yield instance, placement_problem(instance), optimum


def test_no_bound_on_the_step_exceeds_an_optimum() -> None:
    """Path, group, interval, target and work by themselves; without memory together nearly the optimum."""
    shares: list[float] = []
    reached = dict.fromkeys(
        ("path", "group", "interval", "sides", "ancestors", "probing", "target", "work", "memory"), 0
    )
    for instance, problem, optimum in solved(1, 150):
        windows = bounds.heads_and_tails(problem, Deadline())
        raised = {
            "sides": same_device_bound.raised(problem, windows, False, Deadline()),
            "ancestors": ancestors.raised(problem, windows, Deadline()),
            "probing": same_device_bound.raised(problem, windows, True, Deadline()),
        }
        found = {
            "path": bounds.path(windows),
            "group": bounds.group(problem, windows),
            "interval": price_bound.interval(problem, windows),
            **{name: max(bounds.path(w), price_bound.interval(problem, w)) for name, w in raised.items()},
            "target": bounds.target(problem, windows, 0, problem.horizon, Deadline()),
            "work": price_bound.work(problem),
            "memory": packing(problem, windows, 0, problem.horizon, Deadline()),
        }
        for name, value in found.items():
            assert value <= optimum, (name, value, optimum, instance)
            reached[name] += value == optimum
        if instance.task.memory == "none" and optimum:
            shares.append(max(found.values()) / optimum)
    assert sum(shares) / len(shares) >= 0.9, sum(shares) / len(shares)
    assert min(value for name, value in reached.items() if name != "memory") > 12 and reached["memory"], reached


def test_heads_and_tails_hold_in_optimal_schedules() -> None:
    for instance, problem, optimum in solved(2, 40):
        windows = bounds.heads_and_tails(problem, Deadline())
        windows = same_device_bound.raised(problem, ancestors.raised(problem, windows, Deadline()), True, Deadline())
        _, best = brute_force(instance, check)
        assert best is not None
        for v, name in enumerate(problem.names):
            end = best.start[name] + int(problem.time[v, problem.device_names.index(best.devices[name])])
            assert windows.head[v] <= best.start[name] and end + windows.tail[v] <= optimum


def test_no_bound_on_the_load_exceeds_an_optimum() -> None:
    random, compared = Random(3), 0
    while compared < 40:
        instance = tiny_instance(random)
        optimum, _ = brute_force(instance, check)
        if optimum is not None and instance.task.objective == "throughput":
            compared += 1
            problem = placement_problem(instance)
            assert max(bounds.group(problem), price_bound.work(problem)) <= optimum


def test_a_head_counts_communication() -> None:
    """Two operations of 10 ns whose outputs take 8 ns to send: their reader starts at 18, neither at 10 nor 20."""
    problem = placement_problem(made([(10, 0, 8), (10, 0, 8), (1, 0, 0)], [(0, 2), (1, 2)]))
    windows = bounds.heads_and_tails(problem, Deadline())
    assert windows.head.tolist() == [0, 0, 18] and windows.tail.tolist() == [1, 1, 0]
    assert bounds.path(windows) == 19


@pytest.mark.parametrize(("send", "bound"), [(100, 40), (0, 20)])
def test_a_target_counts_what_cannot_be_cut(send: int, bound: int) -> None:
    """Two pairs of readers of one operation: with costly tensors all are on one device."""
    rows = [(0, 0, send), (10, 0, 0), (10, 0, 0), (10, 0, 0), (10, 0, 0)]
    problem = placement_problem(made(rows, [(0, 1), (0, 2), (0, 3), (0, 4)]))
    windows = bounds.heads_and_tails(problem, Deadline())
    assert bounds.target(problem, windows, 0, problem.horizon, Deadline()) == bound


def test_sides_count_a_tensor_that_leaves_and_comes_back() -> None:
    """One operation whose output takes 20 ns to send, two readers of 10 ns, and one that reads all three.

    If a reader is on another device, its result is there at 1 + 20 + 10 + 8. On one device both are done at 21.
    """
    rows = [(1, 0, 20), (10, 0, 8), (10, 0, 8), (1, 0, 0)]
    problem = placement_problem(made(rows, [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]))
    windows = bounds.heads_and_tails(problem, Deadline())
    assert windows.head.tolist() == [0, 1, 1, 19]
    assert same_device_bound.raised(problem, windows, False, Deadline()).head.tolist() == [0, 1, 1, 21]


def test_ancestors_share_the_devices() -> None:
    """Seven operations of 10 ns without transfers before one on two devices: it starts at 35 at the earliest."""
    rows = [(10, 0, 0)] * 7 + [(1, 0, 0)]
    problem = placement_problem(made(rows, [(v, 7) for v in range(7)], links=Links(latency_ns=0.0, bytes_per_ns=1.0)))
    windows = bounds.heads_and_tails(problem, Deadline())
    assert windows.head[7] == 10
    assert ancestors.raised(problem, windows, Deadline()).head[7] == 35


def test_memory_forces_a_transfer() -> None:
    """A chain of 5, 5 and 5 ns that holds 25 bytes, too many for one device: the cheapest tensor takes 7 ns to send."""
    rows, edges = [(5, 3, 9), (5, 3, 7), (5, 3, 0)], [(0, 1), (1, 2)]
    for memory, bound in ((24, 22), (25, 0)):
        instance = made(rows, edges, memory=memory, task={"memory": "static"})
        problem = placement_problem(instance)
        windows = bounds.heads_and_tails(problem, Deadline())
        assert packing(problem, windows, 0, problem.horizon, Deadline()) == bound
        assert brute_force(instance, check)[0] == max(bound, 15)


def test_parts_on_one_device_share_a_copy() -> None:
    """Two operations of 4 bytes that read the same 10 bytes fit on a device of 18, another one of 15 on the second."""
    names, held = ("v0", "v1", "v2"), (4, 4, 15)
    operations = [Operation(name=name, kind="op", weight_bytes=size) for name, size in zip(names, held, strict=True)]
    operations.append(Operation(name="shared", kind="weight", role="constant"))
    tensors = [Tensor(producer=v, readers=(), bytes=0) for v in range(3)]
    graph = OperationGraph.checked("shared", operations, [*tensors, Tensor(producer=3, readers=(0, 1), bytes=10)])
    rows = [(4, 0, 0)] * 4
    instance = made(rows, [], memory=18, task={"memory": "static"}).replace(graph=graph)
    instance.check()
    problem = placement_problem(instance)
    windows = bounds.heads_and_tails(problem, Deadline())
    assert brute_force(instance, check)[0] == 8
    assert packing(problem, windows, 0, problem.horizon, Deadline()) <= 8


def test_bins_of_random_sizes() -> None:
    """The bound is at most the fewest bins by trying all ways, and mostly as much."""
    random, met = Random(4), 0
    for _ in range(200):
        sizes, room = [random.randint(1, 9) for _ in range(random.randint(1, 5))], random.randint(9, 14)
        fewest = min(
            len(set(where))
            for where in product(range(len(sizes)), repeat=len(sizes))
            if all(sum(size for size, at in zip(sizes, where, strict=True) if at == b) <= room for b in set(where))
        )
        found = bins(np.array(sizes, dtype=np.int64), room)
        assert found <= fewest
        met += found == fewest
    assert met > 150
