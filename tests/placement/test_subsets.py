"""Starts on fewer devices: which ones, and that a partition on them is a placement of the instance."""

from __future__ import annotations

import msgspec
import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.instances.placement import Pin, PlacementInstance
from chipmap.instances.placement.generators import random_instance, training_step
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.methods.placement.subsets import alternate_device_subsets, fewest, within
from tests.placement.random_instances import made

SMALL = {"stacks": 1, "layers": 6}


def chosen(problem: PlacementProblem) -> list[int]:
    return fewest(problem, bounds.heads_and_tails(problem, Deadline()))


def chains(count: int, length: int = 6, devices: int = 4) -> PlacementInstance:
    """So many chains side by side, each as long as the step must be."""
    edges = [(k * length + i, k * length + i + 1) for k in range(count) for i in range(length - 1)]
    return made([(10, 0, 0)] * (count * length), edges, devices=devices)


def test_as_many_devices_as_the_longest_path_leaves_time_for() -> None:
    for count, wanted in ((2, 2), (3, 3), (4, 4), (7, 4)):
        assert len(chosen(placement_problem(chains(count)))) == wanted


def test_the_fastest_devices_are_chosen() -> None:
    """Of a P100, two V100 and a P100 the two V100 do for a long network."""
    step = training_step("wavenet", SMALL, devices=4, system="p100-v100-pcie")
    names = [step.system.devices[d].kind for d in chosen(placement_problem(step))]
    assert names == ["v100", "v100"]


def test_an_operation_that_must_be_elsewhere_keeps_all_devices() -> None:
    plain = chains(2)
    pinned = plain.replace(pins=(Pin(operation="v0", device="d3"),))
    pinned.check()
    assert len(chosen(placement_problem(pinned))) == 4


def test_partitions_on_fewer_devices_stay_there() -> None:
    """Of training steps and random graphs: only the chosen devices, each operation on one that it may run on, and work
    about even over those that are used."""
    for seed in range(4):
        instance = random_instance(operations=30, devices=5, classes=2, together=4, edges=0.1, seed=seed)
        step = training_step("wavenet", SMALL, devices=5, saved="operands")
        for one in (instance, step):
            problem = placement_problem(one)
            left, begin = within(problem, [1, 3])
            assert set(np.unique(begin)) <= {1, 3}
            found = partition(left, units(problem), begin, seed)
            assert set(np.unique(found)) <= {1, 3}
            assert problem.allowed[np.arange(problem.operations), found].all()
            assert all(len(set(found[members].tolist())) == 1 for members in problem.groups)
    work = [int(problem.time[found == d, d].sum()) for d in (1, 3)]
    assert max(work) < 1.5 * min(work), "a training step is shared out"


def test_every_other_partition_is_on_fewer_devices() -> None:
    """All placements to begin with are used; heads are asked for once, after the first; not at all for large graphs."""
    problem, asked = placement_problem(chains(2)), list[int]()
    begins = [np.zeros(problem.operations, dtype=np.int64), np.ones(problem.operations, dtype=np.int64)]

    def windows() -> bounds.HeadsAndTails:
        asked.append(1)
        return bounds.heads_and_tails(problem, Deadline())

    trials = alternate_device_subsets(problem, begins, windows)
    first = next(trials)
    assert not asked and first[0] is problem
    rest = [next(trials) for _ in range(5)]
    assert [left is problem for left, _ in rest] == [False, True, False, True, False] and asked == [1]
    assert [int(begin[0]) for left, begin in (first, *rest) if left is problem] == [0, 1, 0]
    wide = alternate_device_subsets(
        placement_problem(chains(4)), begins, lambda: bounds.heads_and_tails(placement_problem(chains(4)), Deadline())
    )
    assert [int(next(wide)[1][0]) for _ in range(4)] == [0, 1, 0, 1]


def test_the_problem_itself_is_left_alone() -> None:
    problem = placement_problem(chains(3))
    before = problem.time.copy(), problem.allowed.copy()
    left, _ = within(problem, [0])
    assert (problem.time == before[0]).all() and (problem.allowed == before[1]).all()
    assert not left.allowed[:, 1:].any() and (left.time[:, 1:] > 100 * problem.time.sum() / problem.operations).all()
    assert msgspec.structs.asdict(left.instance) == msgspec.structs.asdict(problem.instance)
