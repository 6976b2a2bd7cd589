"""Micro-batches under way (C6 with ``task.micro_batches``): what each stage holds, by hand and by brute force."""

from __future__ import annotations

from random import Random

import pytest

from chipmap import SolveOptions, solve
from chipmap.formulations.placement import cpsat, mip
from chipmap.instances.placement import PlacementInstance, PlacementSolution
from chipmap.instances.placement.generators import random_instance
from chipmap.networks.graph import Operation, Tensor
from chipmap.records import InputError
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import candidates
from chipmap.validation.placement.checker import check
from tests.lanes import of_all
from tests.placement.page import Judge, Page
from tests.placement.random_instances import made, throughput


def tiny(random: Random) -> PlacementInstance:
    """Perhaps a weight, then forward operations and backward ones, on two or three devices whose memories bind."""
    operations, weights = random.randint(3, 6), random.choice((0, 1))
    instance = random_instance(
        operations=operations,
        devices=random.choice((2, 3)),
        classes=random.choice((1, 1, 2)),
        links="pair",
        edges=random.choice((0.4, 0.7)),
        weights=weights,
        memory=random.choice((0.5, 0.7, 0.9, 1.3)),
        together=random.choice((0, 0, 2)),
        seed=random.randrange(10**6),
        task={"objective": "throughput", "memory": "static", "contiguous": True, "weights": "variable"},
    )
    first = random.randint(1 + weights, operations - 1)
    backward = tuple(f"v{v}" for v in range(first, operations))
    task = instance.task.replace(micro_batches=random.choice((2, 3, 8)), overlap=random.random() < 0.3)
    return instance.replace(backward=backward, task=task)


def test_brute_force_checker_models_and_auto_agree() -> None:
    random, binds, seen = Random(4), 0, set[bool]()
    for _ in range(of_all(160, few=20)):
        instance = tiny(random)
        page, values, free = Page(instance), list[int](), list[int]()
        alone = Page(instance.replace(task=instance.task.replace(micro_batches=1)))
        for one in candidates(instance):
            verdict, theirs = Judge(page, one).verdict(), check(instance, one)
            labels = {violation.label for violation in theirs.violations}
            if "C7" not in verdict.broken:  # no stages in a circle
                assert labels == verdict.broken and theirs.objective == verdict.objective
            if not verdict.broken:
                values.append(verdict.objective or 0)
            if not (other := Judge(alone, one).verdict()).broken:
                free.append(other.objective or 0)
        best = min(values, default=None)
        binds += best != min(free, default=None)
        seen.add(best is None)
        for build, solver in ((mip.build, "highs"), (cpsat.build, "cpsat")):
            outcome = solve_model(build(instance), SolveRequest(time_limit=60.0, threads=1), solver)
            assert outcome.termination.reason == ("infeasible" if best is None else "optimal")
            assert best is None or outcome.objective == pytest.approx(best, rel=1e-6)
        found = solve(instance, "auto", SolveOptions(threads=1, deterministic=True))
        assert (found.objective, found.status) == (best, "infeasible" if best is None else "optimal")
    assert binds and seen == {True, False}


def chain(memory: int, micro_batches: int) -> PlacementInstance:
    """Three forward operations in a row that keep 2 bytes each for their gradients, on three devices; 1 byte of weights
    each, and gradients of 1 byte."""
    rows = [(1, 1, 2)] * 3 + [(1, 0, 1)] * 3
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 4), (0, 5)]
    back = tuple(f"v{v}" for v in (3, 4, 5))
    pairs = (("v0", "v5"), ("v1", "v4"), ("v2", "v3"))
    task = throughput(contiguous=True, micro_batches=micro_batches)
    return made(rows, edges, 3, memory=memory, task=task, backward=back, together=pairs)


def peaks(instance: PlacementInstance, more: dict[str, str] | None = None) -> list[int]:
    devices = dict(zip((f"v{v}" for v in range(6)), ("d0", "d1", "d2", "d2", "d1", "d0"), strict=True))
    figures = check(instance, PlacementSolution(devices=devices | (more or {}))).figures
    return [int(figures[f"peak_bytes d{d}"]) for d in range(3)]


def test_a_stage_holds_a_micro_batch_for_each_stage_behind_it_and_itself() -> None:
    """A storage that no backward operation reads, a copy for a forward one and gradients count once."""
    # d0: weights 1, output 2 for v5, gradient 1, copy of a gradient 1
    # d1: the same, and a copy of v0's output for v1; d2: weights, output, gradient, copy of v1's output
    assert peaks(chain(99, 1)) == [5, 7, 6]
    assert peaks(chain(99, 2)) == [7, 9, 6]
    assert peaks(chain(99, 3)) == peaks(chain(99, 50)) == [9, 9, 6]


def test_micro_batches_share_weights() -> None:
    """A weight that is an operation of its own, and that a gradient reads as well, is there once on each stage."""
    alone, some = chain(99, 1), chain(99, 3)
    graph = some.graph
    weights = tuple(Operation(name=f"w{v}", kind="weight", role="constant") for v in range(3))
    tensors = tuple(Tensor(producer=6 + v, readers=(v, 5 - v), bytes=100) for v in range(3))
    held = dict(zip((f"w{v}" for v in range(3)), ("d0", "d1", "d2"), strict=True))
    graph = graph.replace(operations=(*graph.operations, *weights), tensors=(*graph.tensors, *tensors))
    for instance in (alone, some):
        task = instance.task.replace(weights="variable")
        bare = peaks(instance)
        assert peaks(instance.replace(graph=graph, task=task), held) == [100 + bytes_ for bytes_ in bare]


def test_what_is_refused() -> None:
    for change, said in (({"contiguous": False}, "counts by stages"), ({"micro_batches": 0}, "is 0")):
        with pytest.raises(InputError, match=said) as met:
            instance = chain(9, 3)
            instance.replace(task=instance.task.replace(**change)).check()
        assert met.value.where == "task.micro_batches"
