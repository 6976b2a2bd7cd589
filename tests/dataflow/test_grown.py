"""Partitions grown by a beam search: the pricing program has them all, and the bound's end is the same, but sooner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound
from chipmap.heuristics.dataflow.cover.convexity import reached_from
from chipmap.heuristics.dataflow.cover.pricing import Partition, Prices
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.wide_graphs import has_cover_bound
from chipmap.solvers.repeated import GrowingProgram, Repeated
from tests.dataflow.random_instances import tiny_instance, variants
from tests.dataflow.test_wide import exact, problem_of
from tests.lanes import of_all


def packed(seed: int) -> DataflowProblem:
    """Kernels of one scheme, one to four of which fit the SRAM, with about as much time for weights as for compute."""
    random = Random(seed)
    kernels: dict[str, dict[str, Any]] = {
        f"k{i}": {
            "flop": random.randint(10**7, 10**9),
            "output_bytes": random.choice((0, 10_000, 20_000)),
            "weight_bytes": random.randint(30_000, 260_000),
            "schemes": ["M"],
        }
        for i in range(random.choice((16, 18, 20)))
    }
    joined = [i for i in range(1, len(kernels)) if random.random() < 0.3]
    edges = [[f"k{random.randrange(max(0, i - 6), i)}", f"k{i}"] for i in joined]
    sram, share = random.choice((180_000, 205_000, 240_000)), random.uniform(0.4, 1.2)

    def problem(gbps: float) -> DataflowProblem:
        small: dict[str, Any] = {"sizes": [2], "chip": "sn10", "batch": 4, "mode": "physical", "sram_bytes": sram}
        degrees = {"tensor": 2, "dimensions": ["tensor"]}
        name = f"packed-{seed}"
        instance = explicit(name=name, kernels=kernels, edges=edges, memory_gbps=gbps, degrees=degrees, **small)
        return dataflow_problem(instance, allowed_degrees(instance)[0])

    one = problem(40.0)
    compute, stream = (sum(getattr(choice[0], field) for choice in one.options) for field in ("compute", "stream"))
    return problem(40.0 * stream / compute / share)


def problems() -> Iterator[tuple[str, DataflowProblem]]:
    """Every feature, and random ones, where kernels are unlike and the bound holds."""
    named: list[tuple[str, DataflowInstance]] = [*variants().items()]
    named += [(f"seed {seed}", tiny_instance(Random(seed))) for seed in range(4000, 4020)]
    for name, instance in named:
        if allowed_degrees(instance) and has_cover_bound(problem := problem_of(instance)):
            yield name, problem


def cover_of(problem: DataflowProblem, grows: bool) -> PartitionBound:
    """The bound before its first question, with or without the beam search."""
    instance = problem.instance
    cover = PartitionBound(classes(problem), instance.asked[0], Repeated, GrowingProgram)
    if not grows:
        cover.growing = None
    return cover


def priced(cover: PartitionBound, phase: bool, part: Partition) -> Partition | None:
    """What the pricing program makes of a partition's kernels and options, and its makers' schemes outside, when it
    wants just these."""
    pricing = cover.pricing[phase]
    cost = pricing.costs(np.zeros(len(cover.sizes)), {pair: 1e7 for pair, value in part.crosses.items() if value > 0})
    for c in pricing.inside:
        for o in range(len(cover.classes.options(c))):
            cost[pricing.names["x", c, o]] = -1e8 if (c, o) in part.kernels else 1e8
    values = cover.solver[phase].minimise(cost, 20.0, 1e-6).values
    return None if values is None else pricing.partition(values)


def test_the_pricing_program_has_every_grown_partition() -> None:
    """The same kernels, time and tensors across the border: C1, C2 and all terms are counted alike."""
    seen, crossing = 0, 0
    for name, problem in problems():
        cover = cover_of(problem, True)
        if cover.growing is None:
            continue
        flat = Prices(np.ones(len(cover.sizes)), dict.fromkeys(cover.matches, 0.0), dict.fromkeys(cover.phases, 0.0))
        for phase, part in cover.growing.best(flat, 8, Deadline()):
            found = priced(cover, phase, part)
            assert found is not None and found.kernels == part.kernels, (name, part)
            assert found.time == pytest.approx(part.time, abs=1e-3), (name, part)
            assert found.crosses == pytest.approx({k: v for k, v in part.crosses.items() if v}), (name, part)
            seen, crossing = seen + 1, crossing + bool(found.crosses)
    assert seen >= 60 and crossing >= 10, (seen, crossing)


def test_the_bound_is_the_same_and_holds() -> None:
    """With the beam search and without, against the exact program."""
    compared = 0
    for name, problem in islice(problems(), of_all(100, few=12)):
        slow, quick = cover_of(problem, False), cover_of(problem, True)
        if quick.growing is None:
            continue
        for cover in (slow, quick):
            cover.run(60, Deadline(), lambda _: None)
        assert slow.infeasible == quick.infeasible, name
        best = exact(problem)
        if not quick.infeasible:
            assert best is None or quick.bound * quick.unit <= best * (1 + 1e-6), name
        if slow.done and quick.done and not slow.infeasible:
            assert quick.bound == pytest.approx(slow.bound, rel=1e-4), name
            compared += 1
    assert compared >= of_all(20, few=5)


def test_few_questions_are_left() -> None:
    """Two instead of some twenty, where a beam search finds all partitions that matter."""
    problem, asked = packed(1010), dict[bool, int]()
    for grows in (False, True):
        rounds: list[int] = []
        cover = cover_of(problem, grows)
        cover.run(60, Deadline(), rounds.append)
        assert cover.done
        asked[grows] = len(rounds) - 1
    assert asked[True] <= 5 and asked[False] >= 15


def test_order_within_a_grown_partition() -> None:
    """Every kernel on a path between two of a partition is in it."""
    problem = packed(1010)
    cover, edges = cover_of(problem, True), [(int(u), int(v)) for u, v in problem.edges.tolist()]
    assert cover.growing is not None and edges
    after = reached_from(problem.n, edges)
    flat = Prices(np.ones(problem.n), {}, dict.fromkeys(cover.phases, 0.0))
    found = cover.growing.best(flat, 200, Deadline())
    joined = 0
    for _, part in found:
        inside = [v for v, c in enumerate(cover.classes.of()) if (c, 0) in part.kernels]
        between = [
            w for w in range(problem.n) for u in inside for v in inside if after[u] >> w & 1 and after[w] >> v & 1
        ]
        assert set(between) <= set(inside)
        joined += any(u in inside and v in inside for u, v in edges)
    assert len(found) == 200 and joined > 5
