"""What order asks of single partitions: every mapping obeys it, and it makes the bound by covers tight."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.heuristics.dataflow.cover import pricing
from chipmap.heuristics.dataflow.cover.convexity import between, chains
from chipmap.heuristics.dataflow.symmetric.classes import Classes, classes
from chipmap.instances.dataflow.generators import explicit, moe
from chipmap.instances.dataflow.problem import DataflowProblem
from tests.dataflow.test_wide import branched, covered, exact, problem_of


def broken(of: Classes, counts: Counter[int]) -> list[Any]:
    """The inequalities that a partition with so many kernels of each class doesn't obey."""
    inside = [c for c in range(len(of.kernels)) if not of.backward[c]]
    wrong: list[Any] = [
        one
        for one in between(of, inside)
        if counts[one.between] < one.share * (counts[one.far] - one.cap * (1 - counts[one.near])) - 1e-9
    ]
    for chain in chains(of, inside):
        starts = sum(
            max(0, counts[c] - (counts[chain[i - 1][0]] if follows else 0)) for i, (c, follows) in enumerate(chain)
        )
        wrong += [chain] if starts > 1 else []
    return wrong


def partitioned(problem: DataflowProblem, random: Random) -> list[Counter[int]]:
    """The class counts of the partitions of a random mapping: pieces of a random order, as far as weights fit."""
    of = classes(problem).of()
    edges = [(int(u), int(v)) for u, v in problem.edges.tolist()]
    waits, parts, held = Counter(v for _, v in edges), [Counter[int]()], 0
    ready = [v for v in range(problem.n) if not waits[v]]
    while ready:
        u = ready.pop(random.randrange(len(ready)))
        weights = min(option.weights for option in problem.options[u])
        if held + weights > problem.sram or random.random() < 0.3:
            parts, held = [*parts, Counter()], 0
        parts[-1][of[u]] += 1
        held += weights
        for a, b in edges:
            waits[b] -= a == u
            if a == u and not waits[b]:
                ready.append(b)
    return parts


@pytest.mark.parametrize("seed", range(12))
def test_partitions_of_any_order_obey(seed: int) -> None:
    random = Random(seed)
    problem = problem_of(branched(random) if seed % 2 else moe(experts=4, sizes=[8], hidden=512, heads=8, inner=1024))
    of, many = classes(problem), 0
    for _ in range(40):
        for counts in partitioned(problem, random):
            assert not broken(of, counts)
            many += sum(counts.values()) > 1
    assert many


def test_what_no_partition_can_be_is_refused() -> None:
    """Around all experts there is no way; an expert's last product and what reads it come with what lies between."""
    of = classes(problem_of(moe(experts=4, sizes=[8], hidden=512, heads=8, inner=1024, stacked=False)))
    names = [of.problem.instance.workload.kernels[kernels[0]].name for kernels in of.kernels]
    dispatch, combine, up = (
        next(c for c, n in enumerate(names) if word in n) for word in ("Dispatch", "Combine", "Up")
    )
    assert of.size(up) == 4
    assert broken(of, Counter({dispatch: 1, combine: 1}))
    assert broken(of, Counter({up: 1, combine: 1}))
    assert not broken(of, Counter({up: 2}))


def path() -> Any:
    """a (compute, half of it memory), b and c (memory) in a row; of what two chips hold, a and c fit a partition, no
    others do."""
    kernels: dict[str, dict[str, Any]] = {
        "a": {"flop": 75 * 10**8, "output_bytes": 0, "weight_bytes": 50_000, "schemes": ["M"]},
        "b": {"flop": 1, "output_bytes": 0, "weight_bytes": 80_000, "schemes": ["M"]},
        "c": {"flop": 1, "output_bytes": 0, "weight_bytes": 60_000, "schemes": ["M"]},
    }
    return explicit(
        name="a path",
        kernels=kernels,
        edges=[("a", "b"), ("b", "c")],
        sizes=[2],
        sram_bytes=60_000,
        chip="sn10",
        memory_gbps=1.0,
        batch=4,
        degrees={"tensor": 2, "dimensions": ["tensor"]},
    )


def test_bound_is_tight_where_order_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """b has no room beside c. Without order a and c would be computed and read side by side."""
    problem = problem_of(path())
    optimum, bound = exact(problem), covered(problem)
    assert optimum is not None and bound is not None
    assert optimum * (1 - 2e-6) <= bound <= optimum
    monkeypatch.setattr(pricing, "chains", lambda *_: iter(()))
    monkeypatch.setattr(pricing, "between", lambda *_: iter(()))
    loose = covered(problem)
    assert loose is not None and loose < 0.8 * optimum
