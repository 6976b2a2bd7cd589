"""The exact program = brute force on random tiny instances; any mapping costs in it what the checker says."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from time import sleep
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.dataflow.program import label_setting as labels
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.program.watch import watched
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.batch_time import resident, total_ticks
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import LIGHT, made, tiny_instance
from tests.lanes import of_all


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_program_is_brute_force(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        instance = tiny_instance(Random(seed))
        if count(instance) > 3**6:
            continue
        optimum, _ = brute_force(instance, check)
        result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1))
        assert (result.status, result.objective) == ("infeasible" if optimum is None else "optimal", optimum), seed
        if optimum is not None:
            assert result.claimed_objective == optimum
        tried[result.status] += 1
    assert tried["optimal"] >= 8 and tried["infeasible"] >= 1


def pinned(instance: DataflowInstance, solution: DataflowSolution) -> DataflowInstance:
    """``instance`` with nothing left to choose but the mapping of ``solution``."""
    kernels = [kernel.name for kernel in instance.workload.kernels]
    groups = [
        tuple(name for name, other in zip(kernels, solution.partitions, strict=True) if other == p)
        for p in sorted(set(solution.partitions))
    ]
    task = instance.task.replace(
        degrees=solution.degrees,
        schemes=dict(zip(kernels, solution.schemes, strict=True)),
        together=groups,
        partitions=None,
        exactly=False,
    )
    return instance.replace(task=task)


def test_costs_are_the_checkers() -> None:
    """A random mapping, all of it pinned: the program's only one, at the checker's objective, or none."""
    seen = {True: 0, False: 0}
    for seed in range(150):
        random = Random(seed)
        instance = tiny_instance(random)
        task = instance.task
        if task.across_layers or not task.fused or count(instance) > 2000 or not count(instance):
            continue
        solution = random.choice(list(candidates(instance)))
        instance = pinned(instance, solution)
        certificate = check(instance, solution)
        problem = dataflow_problem(instance, solution.degrees)
        stays = resident(problem) and len(set(solution.partitions)) == 1
        chain = Program(problem, resident=stays).best(None)
        assert (chain is not None) == certificate.feasible, (seed, certificate.violations)
        if chain is not None:
            assert chain.ticks == certificate.terms["T4"], seed
            assert total_ticks(problem, chain.ticks) == certificate.objective, seed
        seen[certificate.feasible] += 1
    assert min(seen.values()) >= 10


def test_graphs_with_too_many_ideals_are_refused() -> None:
    instance = made(dict.fromkeys("abcdefghijkl", LIGHT), "")
    problem = dataflow_problem(instance, allowed_degrees(instance)[0])
    with pytest.raises(TooWideError, match="more than 1,000 order ideals"):
        Program(problem, limit=1000)


def test_more_sram_and_more_partitions_never_cost_time() -> None:
    kernels = {
        name: {"flop": 10**8, "output_bytes": 40_000, "weight_bytes": 90_000, "schemes": ["M", "NONE"]}
        for name in "abcdef"
    }
    instance = made(kernels, "ab bc cd de ef af bd", mode="dfmodel")
    degrees = Degrees(tensor=2, dimensions=("tensor",))
    program = Program(dataflow_problem(instance, degrees))
    by_sram = [chain.ticks for sram in range(50_000, 400_000, 50_000) if (chain := program.best(None, sram=sram))]
    assert by_sram == sorted(by_sram, reverse=True) and len(set(by_sram)) > 1
    by_count = [chain.ticks for most in range(1, 7) if (chain := program.best(most, sram=120_000))]
    assert by_count == sorted(by_count, reverse=True) and 1 <= len(by_count) < 6


def test_a_limit_leaves_out_nothing_better() -> None:
    """Whatever the limit: the optimum if it lies below, else nothing; also where memory or network decide."""
    largest = {"compute": 0, "memory": 0, "network": 0}
    for seed in range(60):
        instance = tiny_instance(Random(seed))
        if instance.task.across_layers:
            continue
        for degrees in allowed_degrees(instance):
            program = Program(dataflow_problem(instance, degrees))
            free = program._best(program.graph, program.rules(None), False, NO_LIMIT)
            if free is None:
                assert program.best(None) is None, seed
                continue
            assert program.best(None, below=free.ticks) is None, seed
            for more in (1, 2, free.ticks // 7 + 1, NO_LIMIT - free.ticks):
                again = program.best(None, below=free.ticks + more)
                assert again is not None and again.ticks == free.ticks, (seed, more)
            left = program.graph.rest[0].tolist()
            largest[list(largest)[left.index(max(left))]] += 1
    assert sum(largest.values()) > 40 and largest["compute"] and largest["memory"], largest


@pytest.mark.parametrize("room", [30, 60, 120])
def test_labels_that_the_search_had_room_for_are_found_again(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Little room for labels: the search gives up, or the mapping behind its value is the one that it always is."""
    random, names = Random(6), [f"k{i}" for i in range(30)]
    kernels: dict[str, dict[str, Any]] = {
        name: {
            "flop": random.randint(10**5, 10**7),
            "output_bytes": random.randint(10**3, 10**6),
            "weight_bytes": 0,
            "schemes": ["M", "NONE"],
        }
        for name in names
    }
    rates = {"link_gbps": random.choice((1.0, 25.0, 200.0)), "memory_gbps": random.choice((20.0, 200.0))}
    edges = [[u, v] for u, v in pairwise(names)] + [[names[i], names[i + 2]] for i in range(0, 28, 3)]
    degrees = {"tensor": 2, "dimensions": ["tensor"]}
    instance = explicit(kernels=kernels, edges=edges, sizes=[2], chip="sn10", degrees=degrees, micro_batch=1, **rates)
    problem = dataflow_problem(instance, allowed_degrees(instance)[0])
    wanted = Program(problem).best(None)
    monkeypatch.setattr(labels, "POOL", room)
    try:
        assert Program(problem).best(None) == wanted
    except TooWideError:
        assert room < 120


@pytest.mark.parametrize("better", ["compute", "memory", "network", "held", "outside", "signature"])
def test_a_label_goes_only_where_another_is_as_good_in_all(better: str) -> None:
    """A label that is worse in all but one respect stays; without that one it goes."""
    rows: dict[str, Any] = {name: np.array([3, 5]) for name in labels.Labels._fields}
    rows |= {"outside": np.array([[3], [5]]), "signature": np.array([1, 1])}
    fields = SimpleNamespace(lasting=-1)
    graph, rules, keep = SimpleNamespace(fields=fields), SimpleNamespace(shared=False), cast(Any, labels.keep).py_func
    assert not keep(graph, rules, labels.Labels(**rows), 0, 1)
    rows[better][1] -= 3 if better != "signature" else 1
    assert keep(graph, rules, labels.Labels(**rows), 0, 1)


def test_the_compiled_search_hears_the_clock() -> None:
    """A thread beside it takes its allowance away, and gives it back."""
    work = np.array([0, 10**9], dtype=np.int64)
    over = Deadline(ended=lambda: "interrupted")
    with pytest.raises(Stop), watched(work, over):
        while work[1] >= 0:
            sleep(0.01)
    assert work[1] == 10**9
    with watched(work, Deadline()):
        pass
    assert work[1] == 10**9
