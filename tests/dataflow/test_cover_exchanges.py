"""Covers and the program up to symmetry, where what kernels pay for layouts depends on the order: neither is above the
best mapping of tiny instances."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.heuristics.dataflow.symmetric.program import SymmetricProgram
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.batch_time import resident, total_ticks
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.wide_graphs import has_cover_bound
from chipmap.solvers.repeated import GrowingProgram, Repeated
from tests.dataflow.exchange_instances import batch_time, least, problems
from tests.dataflow.random_instances import _kernel, made
from tests.dataflow.test_fused_exchanges import fused_instance, partitionings
from tests.dataflow.test_wide import problem_of
from tests.lanes import of_all


def best(problem: DataflowProblem) -> int | None:
    """Picoseconds of the best mapping of a problem, of all."""
    ranges = [range(len(options)) for options in problem.options] * problem.instance.mapped_layers
    return least((problem, chosen, one) for one in partitionings(problem) for chosen in product(*ranges))


def covered(problem: DataflowProblem) -> int | None:
    """Picoseconds of the batch that the cover proves (None: that nothing fits)."""
    bounds = []
    for case in handover_cases(problem):
        cover = PartitionBound(classes(case), case.instance.asked[0], Repeated, GrowingProgram)
        last: list[int] = []
        cover.run(40, Deadline(), last.append)
        if not cover.infeasible:
            bounds.append(total_ticks(case, last[-1]))
    return min(bounds, default=None)


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_covers_are_never_above_the_best_mapping(block: int) -> None:
    """With tensors that readers share, products that are added up, and parameters that backward kernels use."""
    seen = {"shared": 0, "added": 0, "uses": 0, "close": 0}
    for seed in range(1000 + 12 * block, 1012 + 12 * block):
        instance = fused_instance(seed)
        for problem in problems(instance) if instance is not None else ():
            if not has_cover_bound(problem) or resident(problem):
                continue
            bound, optimum = covered(problem), best(problem)
            assert optimum is None or (bound is not None and bound <= optimum), seed
            if optimum is not None and bound is not None:
                seen["shared"] += bool(problem.shared)
                seen["added"] += bool(problem.added)
                seen["uses"] += bool(problem.uses)
                seen["close"] += bound > 0.9 * optimum
    assert min(seen.values()) >= 2, seen


def forked(random: Random) -> DataflowInstance:
    """A tensor that equal branches of one to three kernels read, their first kernels alone or others as well, and
    perhaps another kernel between them; perhaps a join."""
    length = random.choice((1, 1, 2, 3))
    copies, names = (random.choice((2, 3)) if length == 1 else 2), "bcdefghij"
    body = [_kernel(random) for _ in range(length)]
    second, fork = random.random() < 0.5, random.random() < 0.5
    kernels: dict[str, Any] = {"a": _kernel(random)}
    edges = list[str]()
    for e in range(copies):
        own = names[e * length : (e + 1) * length]
        kernels |= dict(zip(own, body, strict=True))
        edges += ["a" + own[0], *(u + v for u, v in pairwise(own))]
        edges += ["a" + v for v in own[1:2] if second] + [own[0] + v for v in own[2:] if fork]
    if random.random() < 0.6:
        order = list(kernels)
        order.insert(random.randrange(1, len(order) + 1), "t")
        kernels["t"] = _kernel(random)
        kernels = {name: kernels[name] for name in order}
        edges.append("at")
    if random.random() < 0.5:
        kernels["z"] = _kernel(random)
        edges += [names[(e + 1) * length - 1] + "z" for e in range(copies)]
    return made(
        kernels,
        " ".join(edges),
        mode="physical",
        link_gbps=random.choice((2.0, 25.0)),
        memory_gbps=random.choice((20.0, 200.0)),
        sram_bytes=random.choice((160_000, 300_000, 10**6)),
        tile_tokens=random.choice((1, 16)),
        partitions=random.choice((None, None, 2, 3)),
        degrees={"tensor": 2, "dimensions": ["tensor"]},
    )


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_symmetry_keeps_the_order_in_which_readers_pay(block: int) -> None:
    """The program up to symmetry is the plain one, or says that it isn't for such branches."""
    seen = {"shared": 0, "refused": 0}
    for seed in range(40 * block, 40 * block + of_all(40, few=20)):
        problem = problem_of(forked(Random(seed)))
        most = problem.instance.task.partitions
        try:
            symmetric = SymmetricProgram(problem)
        except TooWideError as error:
            assert "equal branches" in str(error) or "interchangeable" in str(error), seed
            seen["refused"] += "which of the equal branches" in str(error)
            continue
        wanted, found = Program(problem).best(most), symmetric.best_up_to_symmetry(most)
        assert (found and found.ticks) == (wanted and wanted.ticks), seed
        if found is not None:
            ticks = batch_time(problem, found.chosen, found.partitions)
            assert ticks is None or ticks <= total_ticks(problem, found.ticks, found.chosen), seed
            seen["shared"] += bool(problem.shared)
    assert min(seen.values()) >= 2, seen
