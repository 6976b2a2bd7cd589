"""Chips that fuse, with what kernels exchange: the programs find what all mappings of tiny instances say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.heuristics.dataflow.program import program
from chipmap.heuristics.dataflow.program.exchanges import Exchanging
from chipmap.heuristics.dataflow.program.label_setting import Graph, Rules
from chipmap.heuristics.dataflow.program.parameters import each_way, tightened
from chipmap.heuristics.dataflow.program.program import Chain, Program
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.problem import DataflowProblem, wires
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from tests.dataflow.exchange_instances import batch_time, exchange_instance, least, problems
from tests.lanes import of_all

#: Mappings of an instance at most.
MOST = 4000


def partitionings(problem: DataflowProblem) -> Iterator[tuple[int, ...]]:
    """Every way to put kernels in partitions that run one after the other (C1, C3, C4, C5)."""
    instance, layers = problem.instance, problem.instance.mapped_layers
    phases = [kernel.phase for kernel in instance.workload.kernels] * layers
    edges, (most, exactly, _) = wires(problem, layers), instance.asked
    for numbers in product(range(len(phases)), repeat=len(phases)):
        used = sorted(set(numbers))
        if used != list(range(len(used))) or any(numbers[u] > numbers[v] for u, v in edges):
            continue
        kinds = [{one for one, p in zip(phases, numbers, strict=True) if p == q} for q in used]
        if any(len(one) > 1 for one in kinds) or any(
            ("backward" in a, "forward" in b) == (1, 1) for a, b in pairwise(kinds)
        ):
            continue
        each = [kinds.count({phase}) for phase in sorted(set(phases))]
        if most is None or all(one == most if exactly else one <= most for one in each):
            yield numbers


def best(instance: DataflowInstance) -> int | None:
    """Picoseconds of the best mapping, of all."""
    return least(
        (problem, chosen, numbers)
        for problem in problems(instance)
        for numbers in partitionings(problem)
        for chosen in product(*[range(len(o)) for o in problem.options] * instance.mapped_layers)
    )


def judged(instance: DataflowInstance, solution: Any) -> Certificate:
    """A checker by the methods' own numbers."""
    assert isinstance(solution, DataflowSolution)
    problem = dataflow_problem(instance, solution.degrees, *solution.plan)
    layer = [[o.scheme for o in options] for options in problem.options]
    chosen = [layer[i % problem.n].index(scheme) for i, scheme in enumerate(solution.schemes)]
    ticks = batch_time(problem, chosen, solution.partitions)
    return Certificate(instance_hash="", solution_hash="", feasible=ticks is not None, objective=ticks)


@cache
def fused(seed: int) -> tuple[DataflowInstance, int | None] | None:
    """A random instance with few enough mappings, and the picoseconds of the best one."""
    instance = fused_instance(seed)
    return None if instance is None else (instance, best(instance))


def fused_instance(seed: int) -> DataflowInstance | None:
    """A random one, with few enough mappings."""
    instance = exchange_instance(Random(seed), fused=True)
    each = list(problems(instance))
    if len(each[0].options) * instance.mapped_layers > 6:
        return None
    ways = sum(1 for _ in partitionings(each[0]))
    for options in each[0].options * instance.mapped_layers:
        ways *= len(options)
    return instance if ways * len(each) <= MOST else None


def run_of(instance: DataflowInstance) -> Run:
    """A run whose mappings are judged by the methods' own numbers."""
    return Run(instance, SolveOptions(threads=1, warm_start="none"), judged)


def _compared(seeds: range) -> dict[str, int]:
    """What ``auto`` proves of these instances; all of it is what brute force says."""
    seen = {"optimal": 0, "infeasible": 0}
    for seed in seeds:
        if (known := fused(seed)) is None:
            continue
        instance, optimum = known
        run = run_of(instance)
        reason = auto(instance, run).reason
        assert (reason, run.upper) == ("infeasible" if optimum is None else "optimal", optimum), seed
        if run.best is not None:
            assert run.best.claimed in (None, run.best.objective), seed
        assert not run.rejected, seed
        seen[reason] += 1
    return seen


@pytest.mark.parametrize("block", range(of_all(6, few=1)))
def test_programs_are_brute_force(block: int) -> None:
    seen = _compared(range(40 * block, 40 * block + of_all(40, few=16)))
    assert seen["optimal"] >= of_all(12, few=4), seen


@pytest.mark.parametrize("block", range(of_all(4, few=1)))
def test_they_are_with_what_the_network_takes_at_least(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds by the relaxation from the first search on, in graphs for each way in which parameters rest and others."""
    better, whole = Counter[bool](), Program._in_graph

    def tight(g: Graph, overlap: bool) -> Graph:
        found = tightened(g, overlap)
        better[bool((found.rest > g.rest).any())] += 1
        return found

    def ways(g: Graph, exchanging: Exchanging) -> list[Graph]:
        return [tight(one, exchanging.problem.instance.task.overlap) for one in each_way(g, exchanging)]

    def in_graph(self: Program, rules: Rules, exactly: bool, below: int, plain: Chain | None = None) -> Chain | None:
        self.graph = tight(self.graph, rules.overlap)
        return whole(self, rules, exactly, below, plain)

    monkeypatch.setattr(program, "each_way", ways)
    monkeypatch.setattr(Program, "_in_graph", in_graph)
    seen = _compared(range(45 * block, 45 * block + 45))
    assert seen["optimal"] >= 10 and min(better.values()) >= 5, (seen, better)
