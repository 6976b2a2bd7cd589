"""Local search in levels: levels that flows respect, moves that keep C1 and C3, valid and better mappings."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap.heuristics.ring.local_search.levels import LevelSearch, widest
from chipmap.heuristics.ring.local_search.levels_kernel import Levels
from chipmap.heuristics.ring.local_search.loads_kernel import Goal, broken, excess
from chipmap.heuristics.ring.local_search.moves_kernel import Heat, anneal
from chipmap.heuristics.ring.local_search.search import LocalSearch
from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.methods.ring import local_search
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import MODES, random_instance
from tests.ring.test_local_search import FREE, wide


def contracted(seed: int, operations: int = 14) -> RingProblem:
    """A random instance in which C1 to C4 are in force."""
    constraints = ("C1", "C2", "C3", "C4")
    instance = random_instance(Random(seed), operations=operations, side=False, constraints=constraints)
    return ring_problem(contract(instance).instance)


def computing(problem: RingProblem) -> list[int]:
    return [v for v in problem.order if problem.computing[v]]


@pytest.mark.parametrize("seed", range(30))
def test_flows_lead_to_the_same_level_or_the_next(seed: int) -> None:
    problem = contracted(seed)
    operations = computing(problem)
    level = widest(problem, operations)
    number = {v: i for i, v in enumerate(operations)}
    assert all(level[number[v]] - level[number[u]] in (0, 1) for u, v in problem.flows.tolist())
    assert not len(level) or level.min() == 0


def test_levels_of_a_layered_graph_are_its_layers() -> None:
    problem = ring_problem(wide())
    assert widest(problem, computing(problem)).tolist() == [v // 6 for v in range(60)]


@pytest.mark.parametrize("seed", range(20))
def test_moves_keep_c1_and_c3_and_what_follows_from_the_mapping(seed: int) -> None:
    """Thousands of moves at a temperature at which nearly all are made, with shared constants, views and inputs."""
    problem = contracted(seed)
    if not problem.computing.any() or not problem.total_ticks:
        return
    search = LocalSearch(problem)
    try:
        levels = LevelSearch(search)
    except ValueError:
        assert not widest(problem, search.operations).any()
        return
    of, chip = levels._dealt(levels._merged(), levels._merged())
    place = search.place(chip)
    goal = Goal(1, MODES.index(problem.cost_mode), problem.sram_bytes, 0.0, 0.0)
    first = np.searchsorted(of, np.arange(of[-1] + 2))
    heat = Heat(np.array([1e9]), 1.0, np.array([seed], dtype=np.uint64))
    anneal(search.net, place, goal, Levels(of, first, np.zeros(len(chip), dtype=np.int64)), heat, 3000)
    chips = np.zeros(problem.n, dtype=np.int64)
    chips[search.operations] = place.chip
    for u, v in problem.flows.tolist():
        assert chips[u] == chips[v] or of[chips[v]] == of[chips[u]] + 1
    assert broken(search.place(place.chip), Goal(FREE, 0, -1, 1.0, 0.0)) == 0.0
    on = loads(problem, chips)
    for mine, theirs in ((place.work, on.work), (place.load, on.load), (place.moved, on.received + on.sent)):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(place.weights, on.weight_bytes)
    np.testing.assert_array_equal(place.boundary, on.boundary_bytes)
    assert excess(place, goal) == excess(search.place(place.chip), goal)


@pytest.mark.parametrize("mode", MODES)
def test_mappings_are_valid_and_better(mode: str) -> None:
    """Each mapping handed over is better than the one before, and the checker accepts it."""
    instance = wide(cost_mode=mode)
    problem = ring_problem(instance)
    values = [problem.most_ticks]

    def take(chips: tuple[int, ...]) -> bool:
        certificate = check(instance, RingSolution(chips=chips))
        assert certificate.feasible and certificate.objective is not None and certificate.objective < values[-1]
        values.append(certificate.objective)
        return len(values) < 4

    LevelSearch(LocalSearch(problem)).improve(values[0], take, 0)
    assert len(values) == 4


def test_spare_chips_go_to_the_levels_with_most_work() -> None:
    """Three levels of 2, 6 and 4 us on six chips: 1, 3 and 2 chips."""
    flop = dict.fromkeys("abcdefghijkl", 4_000_000)
    edges = [[u, v] for u in "ab" for v in "cdefgh"] + [[u, v] for u in "cdefgh" for v in "ijkl"]
    instance = generate("explicit", flop=flop, edges=edges, tensor_bytes=1, sram_bytes_per_ns=1e6, chips=6)
    assert isinstance(instance, RingInstance)
    search = LevelSearch(LocalSearch(ring_problem(instance)))
    of, chip = search._dealt(search.widest, search.widest)
    assert of.tolist() == [0, 1, 1, 1, 2, 2]
    assert np.unique(chip).tolist() == [0, 1, 4]


def test_where_it_does_not_apply() -> None:
    """Operations without flows have one level."""
    instance = generate("explicit", flop={"a": 1, "b": 1}, edges=[], tensor_bytes=1)
    with pytest.raises(ValueError, match="the same level"):
        LevelSearch(LocalSearch(ring_problem(instance)))  # type: ignore[arg-type]


def test_the_method_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ring/local`` where moves that may break C3 find nothing."""
    monkeypatch.setattr(LocalSearch, "improve", lambda *_: None)
    monkeypatch.setattr("chipmap.heuristics.ring.local_search.levels.DOUBLINGS", 0)
    result = solve(wide(), "ring/local", SolveOptions(seed=1, deterministic=True, threads=1))
    assert result.incumbent_source == local_search.LEVELS
