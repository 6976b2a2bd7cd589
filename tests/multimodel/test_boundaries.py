"""The search over boundaries of windows on tiny instances, against all ranges and by the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, pairwise
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.family import get_family, resolve
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.heuristics.multimodel.tables.counts import Counts, module_counts
from chipmap.heuristics.multimodel.tables.paths import Paths, module_paths
from chipmap.heuristics.multimodel.tables.ranges import build
from chipmap.heuristics.multimodel.tables.sets import places
from chipmap.heuristics.multimodel.windows.boundaries import Boundaries, improve, shaken
from chipmap.heuristics.multimodel.windows.counted import laid, over
from chipmap.inputs.reading import read
from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem, schedule, terms
from chipmap.methods.multimodel import latest
from chipmap.methods.multimodel.column_bound import grid
from chipmap.run import Run, SolveOptions
from chipmap.validation.multimodel.checker import check


def searched(
    seed: int,
    windows: int = 3,
    objective: str = "edp",
    of: Callable[[MultiProblem], Paths | Counts | None] = module_paths,
) -> tuple[MultiProblem, Boundaries, float]:
    """A random problem of two or three models without limits, the search over its tables, and a weight of time."""
    random = Random(seed)
    layers = tuple(random.randint(1, 5) for _ in range(random.choice((2, 3))))
    task = {"windows": windows, "objective": objective}
    instance = random_instance(seed=seed, layers=layers, columns=2, rows=2, batch=4, task=task)
    problem = multi_problem(instance)
    start, paths = whole_models(problem), of(problem)
    assert start is not None and paths is not None
    time, energy = terms(problem, start)
    edges, rate = grid(time, 3 * time, 0.05), energy / time
    rates = None if objective == "latency" else [rate]
    tables = [build(problem, m, paths, edges, rates, Deadline()) for m in range(len(problem.models))]
    return problem, over(problem, paths, Pricing(tables, places(paths), edges), Deadline()), rate


def cost(program: Boundaries, nodes: list[list[int]], rate: float) -> float:
    """λ · T1 + T2 by the tables with every range fixed."""
    total = 0.0
    for w in range(program.count):
        ranges = [(own[w], own[w + 1]) for own in nodes]
        if any(low < high for low, high in ranges):
            total += float((program.pricing.fixed(ranges) + rate * program.pricing.edges[1:]).min())
    return total


@pytest.mark.parametrize("seed", range(12))
def test_one_model_finds_its_best_nodes(seed: int) -> None:
    """The program over one model's nodes equals the least over all of them, each window priced by itself."""
    _, program, rate = searched(seed, of=module_counts if seed % 2 else module_paths)
    random = np.random.default_rng(seed)
    start = [[0] + [model.layers] * program.count for model in program.models]
    for m, model in enumerate(program.models):
        nodes = shaken(start, random)
        value, own = program.model(m, nodes, rate)
        inner = combinations_with_replacement(range(model.layers + 1), program.count - 1)
        every = [cost(program, [*nodes[:m], [0, *one, model.layers], *nodes[m + 1 :]], rate) for one in inner]
        assert value == pytest.approx(min(every))
        assert cost(program, [*nodes[:m], own, *nodes[m + 1 :]], rate) == pytest.approx(value)


@pytest.mark.parametrize("of", [module_paths, module_counts])
@pytest.mark.parametrize("seed", range(8))
def test_descents_never_rise_and_real_windows_keep_the_nodes(
    seed: int, of: Callable[[MultiProblem], Paths | Counts | None]
) -> None:
    """A descent's cost is that of its nodes; what is decoded has these nodes and keeps C0 to C5."""
    problem, program, rate = searched(seed, of=of)
    start = shaken([[0] + [model.layers] * program.count for model in program.models], np.random.default_rng(seed))
    value, nodes = program.descend(start, rate)
    assert value <= cost(program, start, rate) * (1 + 1e-9)
    assert value == pytest.approx(cost(program, nodes, rate))
    windows = program.windows(nodes, rate)
    assert windows is not None
    assert program.nodes_of(windows) == nodes
    certificate = check(problem.instance, schedule(problem, windows))
    assert certificate.feasible
    assert (certificate.terms["T1"], certificate.terms["T2"]) == terms(problem, windows)


@pytest.mark.parametrize("objective", ["edp", "latency"])
def test_every_schedule_is_better_than_the_one_before(objective: str) -> None:
    """And valid; some are found."""
    count = 0
    for seed in range(4):
        problem, program, _ = searched(seed, objective=objective, of=module_counts if seed % 2 else module_paths)
        start = whole_models(problem)
        assert start is not None
        best = problem.objective(*terms(problem, start))
        for windows in improve(program, start, seed, 15):
            certificate = check(problem.instance, schedule(problem, windows))
            assert certificate.feasible and certificate.objective is not None
            assert certificate.objective < best
            best, count = certificate.objective, count + 1
    assert count > 2


def test_paths_are_laid_side_by_side() -> None:
    """Linked, disjoint, of no more chiplets of each group than asked for; all of them where a snake holds them."""
    whole = 0
    for seed in range(20):
        random = Random(seed)
        instance = random_instance(seed=seed, layers=(9, 9, 9), columns=4, rows=4, pattern="checkerboard")
        problem = multi_problem(instance)
        kinds = [chiplet.kind for chiplet in instance.module.chiplets]
        of = [sorted(set(kinds)).index(kind) for kind in kinds]
        wanted = [(3, 2), (2, 3), (3, 3)]
        ways = laid(problem, of, wanted, random)
        assert ways is not None
        assert len({c for way in ways for c in way}) == sum(map(len, ways))
        for way, numbers in zip(ways, wanted, strict=True):
            assert all(b in problem.neighbours[a] for a, b in pairwise(way))
            assert all(sum(of[c] == k for c in way) <= number for k, number in enumerate(numbers))
        whole += sum(map(len, ways)) == 16
    assert whole >= 15


def test_a_deadline_ends_it() -> None:
    """Without a number of descents the deadline is what stops it."""
    problem, program, _ = searched(1)
    start = whole_models(problem)
    assert start is not None
    program.deadline = Deadline(ended=lambda: "interrupted")
    with pytest.raises(Stop):
        list(improve(program, start, 0))


def test_shaken_nodes_stay_in_order() -> None:
    """From 0 to L, never back."""
    random = np.random.default_rng(3)
    nodes = [[0, 2, 2, 7], [0, 0, 1, 1]]
    for _ in range(300):
        nodes = shaken(nodes, random)
        for own, layers in zip(nodes, (7, 1), strict=True):
            assert own[0] == 0 and own[-1] == layers and own == sorted(own) and len(own) == 4


def test_tables_too_short_for_any_schedule_end_the_search() -> None:
    """Where no window is long enough, nothing is found, and nothing goes on for ever."""
    problem, program, rate = searched(2)
    start, paths = whole_models(problem), module_paths(problem)
    assert start is not None and paths is not None
    edges = np.array([0, 1, 2])
    tables = [build(problem, m, paths, edges, [rate], Deadline()) for m in range(len(problem.models))]
    program = Boundaries(problem, paths, Pricing(tables, places(paths), edges), Deadline())
    assert list(improve(program, start, 0, 5)) == []


def test_what_is_compiled_first_has_this_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the solves that compile the family's functions one comes to it: :func:`chipmap.process.warming.warm`."""
    begun = list[Boundaries]()

    def begin(program: Boundaries, *_: object) -> Iterator[object]:
        """It has come to it."""
        begun.append(program)
        raise Stop

    monkeypatch.setattr(latest, "improve", begin)
    family = get_family("multimodel")
    for name, function in (one for one in family.warm if ":" in one[1]):
        instance = read(name)
        resolve(function)(instance, Run(instance, SolveOptions(threads=1), check))
    assert begun
