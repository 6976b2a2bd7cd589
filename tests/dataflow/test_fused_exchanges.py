"""Chips that fuse, with what kernels exchange: the programs find what all mappings of tiny instances say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.problem import DataflowProblem, dataflow_problem, wires
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from tests.dataflow.exchange_instances import batch_time, exchange_instance, problems

#: Mappings of an instance at most.
MOST = 20_000


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
    found = [
        batch_time(problem, chosen, numbers)
        for problem in problems(instance)
        for numbers in partitionings(problem)
        for chosen in product(*[range(len(o)) for o in problem.options] * instance.mapped_layers)
    ]
    return min((one for one in found if one is not None), default=None)


def judged(instance: DataflowInstance, solution: Any) -> Certificate:
    """A checker by the methods' own numbers."""
    assert isinstance(solution, DataflowSolution)
    problem = dataflow_problem(instance, solution.degrees, *solution.plan)
    layer = [[o.scheme for o in options] for options in problem.options]
    chosen = [layer[i % problem.n].index(scheme) for i, scheme in enumerate(solution.schemes)]
    ticks = batch_time(problem, chosen, solution.partitions)
    return Certificate(instance_hash="", solution_hash="", feasible=ticks is not None, objective=ticks)


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


@pytest.mark.parametrize("block", range(6))
def test_programs_are_brute_force(block: int) -> None:
    seen = {"optimal": 0, "infeasible": 0}
    for seed in range(60 * block, 60 * block + 60):
        instance = fused_instance(seed)
        if instance is None:
            continue
        run, optimum = run_of(instance), best(instance)
        reason = auto(instance, run).reason
        assert (reason, run.upper) == ("infeasible" if optimum is None else "optimal", optimum), seed
        if run.best is not None:
            assert run.best.claimed in (None, run.best.objective), seed
        assert not run.rejected, seed
        seen[reason] += 1
    assert seen["optimal"] >= 20, seen
