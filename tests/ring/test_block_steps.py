"""Bounds from programs of one block: never above the optimum, as far as all ideals say, tight on an example."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import all_ideals, bits
from chipmap.heuristics.ring.bounds.block_program import BlockPrograms
from chipmap.heuristics.ring.programs.flow_graph import flow_graph
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring import block_steps as steps
from chipmap.methods.ring.block_steps import furthest, refuted
from chipmap.methods.ring.state import RingChainState
from chipmap.run import Run, SolveOptions
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import random_instance
from tests.ring.test_cut_bounds import linked, optimum

LONG = 60.0


def programs(problem: RingProblem) -> BlockPrograms:
    """The programs of a problem."""
    return BlockPrograms(problem, flow_graph(problem))


def least(problem: RingProblem) -> int:
    """The least objective that isn't refuted, by bisection."""
    of, low, high = programs(problem), 1, problem.most_ticks
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if refuted(of, middle, Deadline()) else (low, middle)
    return low


def reached(problem: RingProblem, after: int, most: int) -> int:
    """The most work(J) over all ideals I <= J with work(I) <= after and a block that costs at most ``most``."""
    graph = flow_graph(problem)
    ideals = [frozenset(graph.operation[i] for i in bits(mask)) for mask in all_ideals(graph.producers).masks]
    best = 0
    for first in ideals:
        if sum(int(problem.ticks[v]) for v in first) > after:
            continue
        for last in ideals:
            block = last - first
            if not first <= last:
                continue
            split = [s for s in problem.storages if 0 < len(block & {s.producer, *s.readers}) < 1 + len(s.readers)]
            memory = sum(int(problem.floor_bytes[v]) for v in block) + 2 * sum(s.bytes for s in split)
            cost = sum(int(problem.ticks[v]) for v in block) + sum(s.ticks for s in split)
            if cost <= most and (not problem.has("C4") or memory <= problem.sram_bytes):
                best = max(best, sum(int(problem.ticks[v]) for v in last))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_no_optimum_is_refuted(seed: int) -> None:
    instance = linked(seed, mode="sum")
    best = optimum(instance)
    assert best is not None
    of = programs(ring_problem(instance))
    assert not refuted(of, best, Deadline())
    assert refuted(of, of.problem.least_ticks - 1, Deadline())


@pytest.mark.parametrize("seed", range(60))
def test_no_optimum_is_refuted_of_instances_with_everything(seed: int) -> None:
    """Views, constants, pins, memory in both grades, any of C1 to C4."""
    instance = random_instance(Random(seed), operations=5)
    problem = ring_problem(contract(instance).instance)
    if problem.cost_mode != "sum" or not problem.has("C1") or not problem.computing.any():
        return
    best = optimum(instance)
    if best is not None:
        assert not refuted(programs(problem), best, Deadline())


@pytest.mark.parametrize("seed", range(12))
def test_the_furthest_step_is_that_of_all_pairs_of_ideals(seed: int) -> None:
    """Never less, and at most a hundredth of the mean work of a chip more."""
    problem = ring_problem(linked(seed, operations=8, mode="sum"))
    of = programs(problem)
    for share in (0.0, 0.3, 0.7):
        for most in (int(1.2 * of.unit), int(2.0 * of.unit)):
            after = int(share * of.total)
            exact, found = reached(problem, after, most), furthest(of, after, after + 1, most, LONG)
            assert max(exact, after) <= found <= max(exact, after) + 0.011 * of.unit + 2


def row(**setting: object) -> RingInstance:
    """Eight operations of 1 us in a row, 1 us on a link for what each makes."""
    instance = generate(
        "explicit",
        flop=dict.fromkeys("abcdefgh", 4_000_000),
        edges=[list(pair) for pair in ("ab", "bc", "cd", "de", "ef", "fg", "gh")],
        tensor_bytes=32_000,
        sram_bytes_per_ns=1e6,
        **{"chips": 3, "cost_mode": "sum", **setting},
    )
    assert isinstance(instance, RingInstance)
    return instance


def test_it_is_tight_where_every_chip_pays_for_its_ends() -> None:
    """Three, two and three operations take 4 us on each chip, which is optimal; the average work is 2.67 us."""
    problem = ring_problem(row())
    assert max(terms(problem, [0, 0, 0, 1, 1, 2, 2, 2])) == 400_000
    assert 399_990 <= least(problem) <= 400_000, "but for the margin that the solver is given"


def test_memory_shortens_steps() -> None:
    """Each operation has 1,000,000 bytes of weights. With room for two of them three chips can't take eight, whatever
    that may cost; with room for three they can, at the price that time asks for.
    """
    setting = {"chips": 3, "weight_bytes": dict.fromkeys("abcdefgh", 1_000_000), "sram_mib": 2.4}
    problem = ring_problem(row(**setting))
    assert refuted(programs(problem), problem.most_ticks, Deadline())
    assert not refuted(programs(ring_problem(row(**{**setting, "sram_mib": 3.5}))), 400_000, Deadline())


def test_what_they_say_nothing_of_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing takes time"):
        programs(ring_problem(structs.replace(linked(0, mode="sum"), time_ns=(0.0,) * 5)))
    with pytest.raises(ValueError, match="mode sum"):
        programs(ring_problem(row(cost_mode="period")))


@pytest.mark.parametrize("lower", [1250, 100_000])
def test_no_target_is_asked_twice(lower: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is refuted the targets fall to the bound. With small numbers the last one came again for ever."""
    instance, asked = row(), list[int]()

    def refuted(programs: BlockPrograms, most: int, deadline: Deadline, patient: bool) -> bool:
        assert most not in asked
        asked.append(most)
        return False

    monkeypatch.setattr(steps, "refuted", refuted)
    run = Run(instance, SolveOptions(), check)
    run.bound(lower, "given")
    steps.block_steps(RingChainState(instance, run), Deadline(), True)
    assert asked
