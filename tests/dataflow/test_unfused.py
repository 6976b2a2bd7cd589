"""Chips that don't fuse: the elimination of kernels = brute force, with one table per kernel or one per tensor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.unfused import dense, program, tables
from chipmap.heuristics.dataflow.unfused.costs import SingleKernelCosts
from chipmap.heuristics.dataflow.unfused.elimination import elimination_order
from chipmap.heuristics.dataflow.unfused.program import UnfusedProgram
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.kernels import plainly
from chipmap.methods.dataflow import unfused
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, split_instance

SEEDS = range(9)
#: An element-wise kernel with a choice, cheap to compute and dear to move.
PLAIN = {"kind": "elementwise", "M": 512, "N": 64}


def cases(seeds: range = SEEDS) -> Iterator[tuple[DataflowInstance, int | None]]:
    """Random instances, kernel by kernel, whose optimum brute force finds (None: infeasible)."""
    makers = mixed_instance, outside_instance, split_instance
    for seed, maker in product(seeds, makers):
        instance = maker(Random(seed))
        task = instance.task.replace(fused=False, together=(), partitions=None, exactly=False)
        instance = instance.replace(task=task)
        if count(instance) <= 1500 and allowed_degrees(instance):
            yield instance, brute_force(instance, check)[0]


def solved(instance: DataflowInstance) -> Run:
    run = Run(instance, SolveOptions(time_limit=600.0, threads=1), check)
    with plainly():
        auto(instance, run)
    return run


def test_the_elimination_is_brute_force() -> None:
    tried = {True: 0, False: 0}
    for instance, optimum in cases():
        run = solved(instance)
        assert (run.upper, run.proved_infeasible) == (optimum, optimum is None), instance
        assert not run.rejected and (optimum is None or run.gap == 0.0), instance
        tried[optimum is None] += 1
    assert tried[False] >= 9 and tried[True] >= 2


def test_tables_per_tensor_are_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for kernels that read so many others that a table of their own would be too large."""
    monkeypatch.setattr(tables, "OWN_CELLS", 1)
    monkeypatch.setattr(tables, "OPEN", 100)
    compared = 0
    for instance, optimum in cases():
        run = solved(instance)
        assert run.upper == optimum and (optimum is None or run.gap == 0.0), instance
        compared += optimum is not None
    assert compared >= 9


def test_relaxations_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no table may have two cells, bounds are at most the optimum, and mappings what the checker says."""
    monkeypatch.setattr(program, "CELLS", 0)
    monkeypatch.setattr(dense, "CELLS", 0)
    monkeypatch.setattr(unfused, "MINI_CELLS", (1, 4))
    closed = 0
    for own, (instance, optimum) in product((1, 4096), cases(range(6))):
        monkeypatch.setattr(tables, "OWN_CELLS", own)
        run = solved(instance)
        assert not run.rejected
        if optimum is None:
            assert run.best is None
            continue
        assert run.lower is not None and run.lower.value <= optimum, instance
        assert run.upper is not None and run.upper >= optimum, instance
        closed += run.upper == optimum
    assert closed >= 5


def test_a_kernel_that_reads_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight equal kernels into one, which waits for DRAM or for the network: as all choices of schemes have it."""
    names = "bcdefghi"
    kernels = {"a": PLAIN, **{name: {**PLAIN, "M": 2048} for name in names}, "z": PLAIN}
    edges = " ".join([f"a{v} {v}z" for v in names])
    instance = made(kernels, edges, fused=False, sizes=[4], link_gbps=25.0, memory_gbps=60.0, sram_bytes=10**7)
    monkeypatch.setattr(tables, "OWN_CELLS", 64)
    problem = dataflow_problem(instance, allowed_degrees(instance)[0])
    with plainly():
        found = UnfusedProgram(problem, Deadline()).best()
    singles = SingleKernelCosts(problem)

    def ticks(chosen: tuple[int, ...]) -> int:
        return sum(singles.ticks(chosen, problem.places) or ())

    least = min(map(ticks, product(*(range(size) for size in singles.sizes))))
    assert ticks(found.chosen) == least and found.proved


def test_too_wide_is_said() -> None:
    """The order stops where even the smallest table is too large, and the program says so."""
    complete = [(u, v) for u in range(20) for v in range(u)]
    order, widest = elimination_order([3] * 20, complete)
    assert sorted(order) == list(range(20)) and widest == 3**20
    instance = made(dict.fromkeys("abcdefgh", PLAIN), "", fused=False, sizes=[2], sram_bytes=10**7)
    problem = dataflow_problem(instance, allowed_degrees(instance)[0])
    wide = UnfusedProgram(problem, Deadline())
    wide.widest = widest
    with pytest.raises(TooWideError, match="choices"):
        wide.best()


def test_every_kernel_costs_what_its_table_says() -> None:
    for instance, _ in cases(range(3)):
        for degrees in allowed_degrees(instance)[:1]:
            problem = dataflow_problem(instance, degrees, instance.task.micro_batch or 1)
            singles = SingleKernelCosts(problem)
            listed = [(scope, tables.times(singles, v, scope)) for v, scope in enumerate(tables.scopes(singles)[0])]
            for chosen in product(*(range(size) for size in singles.sizes)):
                each = [int(values[tuple(chosen[w] for w in scope)]) for scope, values in listed]
                assert singles.ticks(chosen, problem.places) == (None if max(each) >= tables.NEVER else each)
