"""Wide graphs: restricted programs find real mappings, covers bound the optimum, branches are found."""

from __future__ import annotations

from itertools import count as counter
from random import Random

import pytest

from chipmap.heuristics.dataflow.branches import interchangeable
from chipmap.heuristics.dataflow.classes import classes
from chipmap.heuristics.dataflow.narrow import Found, Narrow
from chipmap.heuristics.dataflow.program import Program
from chipmap.heuristics.dataflow.single import partitions_of
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.costs import DataflowProblem, dataflow_problem
from chipmap.instances.dataflow.instance import allowed_degrees
from chipmap.methods.dataflow_cover import Cover, PartitionBound
from chipmap.reading import read
from tests.dataflow.random_instances import GEMM, HEAVY, LIGHT, made, tiny_instance, variants


def problem_of(instance: DataflowInstance) -> DataflowProblem:
    return dataflow_problem(instance, allowed_degrees(instance)[0])


def shipped(name: str) -> DataflowProblem:
    instance = read(f"dataflow/{name}")
    assert isinstance(instance, DataflowInstance)
    return problem_of(instance)


def exact(problem: DataflowProblem) -> int | None:
    """The optimum of the program where weights never stay (what the cover bounds)."""
    task, chip = problem.instance.task, problem.instance.system.chip
    fused = task.fused and chip.fused
    chain = Program(problem).best(task.partitions if fused else None, task.exactly and fused, fused)
    return None if chain is None else chain.ticks


def covered(problem: DataflowProblem, rounds: int = 150) -> Cover | None:
    """The bound, run to its end; None where it proves that nothing fits."""
    task, chip = problem.instance.task, problem.instance.system.chip
    bound = PartitionBound(classes(problem), task.partitions if task.fused and chip.fused else None)
    last: list[Cover] = []
    number = counter()
    bound.run(lambda: next(number) < rounds, lambda: 10.0, last.append)
    return None if bound.infeasible else last[-1]


@pytest.mark.parametrize("block", range(2))
def test_covers_bound_the_optimum(block: int) -> None:
    close = 0
    for seed in range(2000 + 12 * block, 2012 + 12 * block):
        instance = tiny_instance(Random(seed))
        if instance.task.across_layers or not allowed_degrees(instance):
            continue
        problem = problem_of(instance)
        optimum, cover = exact(problem), covered(problem)
        if cover is None:
            assert optimum is None, seed
        elif optimum is not None:
            assert cover.bound <= optimum, seed
            close += cover.bound > 0.9 * optimum
    assert close >= 4


def test_covers_bound_every_variant() -> None:
    for name, instance in variants().items():
        if not instance.task.across_layers:
            problem = problem_of(instance)
            optimum, cover = exact(problem), covered(problem)
            assert optimum is not None and cover is not None and 0 < cover.bound <= optimum, name


def test_experts_are_interchangeable() -> None:
    problem = shipped("moe-8-experts")
    names = [kernel.name for kernel in problem.instance.workload.kernels]
    found = {tuple(names[v] for v in group[0]): len(group) for group in interchangeable(problem)}
    assert found == {("Expert0_Gate", "Expert0_Up", "Expert0_Mul", "Expert0_Down"): 8, ("Q",): 2}
    of = classes(problem)
    assert len(of.kernels) == 50 - 7 * 4 - 1 and sum(link.tensors for link in of.links) == len(problem.edges)


def test_branches_that_differ_are_told_apart() -> None:
    twins = {"a": LIGHT, "b": HEAVY, "c": HEAVY, "d": LIGHT, "e": LIGHT, "z": LIGHT}
    same = made(twins, "ab ac bd ce dz ez")
    assert interchangeable(problem_of(same)) == (((1, 3), (2, 4)),)
    assert interchangeable(problem_of(made({**twins, "e": HEAVY}, "ab ac bd ce dz ez"))) == ()
    assert interchangeable(problem_of(made(twins, "ab ac bd ce dz ez ae"))) == ()
    assert interchangeable(problem_of(made(twins, "ab ac bd ce dz ez", together=["b"]))) == ()


def test_pieces_of_an_order_are_mappings_at_their_price() -> None:
    """What the restricted programs find costs what the exact program says of it, and never less than the optimum."""
    problem = shipped("moe-3-experts")
    of = classes(problem)
    narrow, found = Narrow(of, None, False, True), list[Found]()
    schemes = narrow.first(lambda: True, found.append)
    assert schemes is not None
    wide = narrow.solve(schemes, 12)
    optimum = exact(problem)
    assert wide is not None and optimum is not None
    assert optimum <= wide.ticks <= min(one.ticks for one in found)
    for one in found:
        parts = partitions_of(of, 1.0, one.partitions, one.chosen)
        assert round(sum(part.time for _, part in parts)) == one.ticks


def test_side_by_side_gemms_come_close() -> None:
    """24 kernels side by side have 2^24 ideals."""
    kernels = {name: {**GEMM, "M": 64 * (i % 5 + 1)} for i, name in enumerate("abcdefghijklmnopqrstuvwx")}
    problem = problem_of(made(kernels, "", degrees={"tensor": 2, "dimensions": ["tensor"]}, sram_bytes=160_000))
    narrow, found = Narrow(classes(problem), None, False, True), list[Found]()
    narrow.first(lambda: True, found.append)
    cover = covered(problem)
    best = min(one.ticks for one in found)
    assert cover is not None and 0.9 * best < cover.bound <= best
