"""Numbers of chiplets in place of paths: bounds against all schedules of tiny instances, sets against plain loops."""

from __future__ import annotations

from itertools import pairwise, product
from math import inf
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.columns.column_generation import WindowColumns
from chipmap.heuristics.multimodel.tables import counts
from chipmap.heuristics.multimodel.tables.beside import Beside
from chipmap.heuristics.multimodel.tables.counts import Vectors, module_counts
from chipmap.heuristics.multimodel.tables.paths import module_paths
from chipmap.heuristics.multimodel.tables.sets import Places
from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows
from chipmap.heuristics.multimodel.windows.one_window import OneWindow
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel import programs
from chipmap.methods.multimodel.column_bound import ColumnBound
from chipmap.run import Run, SolveOptions
from chipmap.validation.multimodel.checker import check
from tests.lanes import of_all
from tests.multimodel.enumeration import combinations, schedules
from tests.multimodel.random_instances import varied_instance
from tests.multimodel.test_agreement import with_objective

NONE = np.zeros(0, dtype=np.int64)
#: Combinations of parts in an instance, at most.
MOST = 20_000
#: Most nodes of types and of classes: types are told apart, classes, nothing.
GROUPS = {"types": (10**6, 0), "classes": (0, 10**6), "none": (0, 0)}


@pytest.mark.parametrize("groups", GROUPS)
def test_no_bound_exceeds_the_optimum(groups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of columns hold for all schedules; a single window's bounds are at most its optimum, and often near."""
    monkeypatch.setattr(counts, "MOST_OF_TYPES", GROUPS[groups][0])
    monkeypatch.setattr(counts, "MOST_NODES", GROUPS[groups][1])
    random, compared, near = Random(44), 0, 0
    while compared < of_all(60, few=6):
        base = varied_instance(random)
        if combinations(base) > MOST:
            continue
        known = with_objective(schedules(base), random.choice(("latency", "weighted", "edp")))
        if known.optimum is None:
            continue
        compared += 1
        problem, run = multi_problem(known.instance), Run(known.instance, SolveOptions(deterministic=True), check)
        nodes = module_counts(problem)
        assert nodes is not None
        assert len(nodes.groups) == (1 if groups == "none" else len(nodes.groups))
        program = ColumnBound(problem, Turn(run, Deadline()), nodes)
        program.prove(program.stage(0.05))
        assert all(line.value <= (line.rate * known.time + known.energy).min() for line in program.lines)
        bounds = [program.told]
        if problem.windows == 1:
            found = list(OneWindow(problem, nodes).run(None, Deadline()))
            assert all(find.segments is None for find in found)
            bounds += [int(find.bound) for find in found if find.bound is not None]
        assert max(bounds) <= known.optimum
        near += max(bounds) >= 0.9 * known.optimum
    assert near >= compared / 3, (near, compared)


@pytest.mark.parametrize("dear", [False, True])
def test_numbers_come_before_paths_and_prove_no_more_than_the_optimum(
    dear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines and prices of numbers of chiplets go on to the paths' tables; so do whole sequences of windows. Where the
    paths' tables would take too long, those of numbers become finer."""
    if dear:
        monkeypatch.setattr(programs, "_seconds", lambda bound, kinds, at, step: inf if step.kind else 0.0)
    monkeypatch.setattr(programs, "MANY", 0)
    monkeypatch.setattr(programs, "FEWER", 0)
    random, compared, told = Random(45), 0, 0
    while compared < of_all(60, few=3):
        base = varied_instance(random)
        if combinations(base) > MOST or base.task.windows == 1:
            continue
        known = with_objective(schedules(base), random.choice(("latency", "weighted", "edp")))
        if known.optimum is None:
            continue
        compared += 1
        run = Run(known.instance, SolveOptions(deterministic=not dear), check)
        programs.columns(multi_problem(known.instance), Turn(run, Deadline()))
        assert all(bound.value <= known.optimum for bound in run.bounds)
        told += bool(run.bounds)
    assert told >= compared / 2


@pytest.mark.parametrize("deterministic", [True, False])
def test_the_clock_cuts_early_columns_short_where_it_may_decide(
    monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    """Not in deterministic runs, whose time limit stands for work."""
    monkeypatch.setattr(programs, "MANY", 0)
    monkeypatch.setattr(programs, "FEWER", 0)
    shares = list[float]()

    def prove(_: ColumnBound, program: WindowColumns, share: float = 1.0) -> bool:
        shares.append(share)
        return True

    monkeypatch.setattr(ColumnBound, "prove", prove)
    instance = with_objective(schedules(varied_instance(Random(45))), "latency").instance
    run = Run(instance, SolveOptions(time_limit=1e6, deterministic=deterministic), check)
    programs.columns(multi_problem(instance), Turn(run, run.deadline), search=False)
    assert len(programs.kinds_of_tables(multi_problem(instance))) > 1
    assert shares[0] == (1.0 if deterministic else programs.EARLY) and shares[-1] == 1.0


def test_large_modules_have_bounds_that_know_of_segments() -> None:
    """Fourteen chiplets have too many paths to list; their numbers prove more than shares of layers do."""
    instance = random_instance(
        (9, 7), 2, 7, batch=4, seed=3, task={"objective": "weighted", "windows": 2, "watts": 99.0}
    )
    problem, run = multi_problem(instance), Run(instance, SolveOptions(deterministic=True), check)
    assert module_paths(problem) is None
    programs.columns(problem, Turn(run, Deadline()))
    assert max(bound.value for bound in run.bounds) > 1.02 * AnyWindows(problem).line(99_000.0).value


def three_classes() -> MultiInstance:
    """Two models on 16 chiplets of three classes, the third one nearly as the first."""
    base = random_instance((16, 2), 4, 4, seed=5, task={"objective": "edp", "windows": 2})
    chiplets = [one.replace(**{"class": "third"}) if c % 3 == 0 else one for c, one in enumerate(base.module.chiplets)]
    models = []
    for model in base.models:
        layers = []
        for layer in model.layers:
            time, energy = layer.costs["nvdla"]
            layers.append(layer.replace(costs={**layer.costs, "third": (time + 1, energy + 1)}))
        models.append(model.replace(layers=tuple(layers)))
    return base.replace(models=tuple(models), module=base.module.replace(chiplets=tuple(chiplets)))


def test_groups_become_fewer_and_the_most_alike_are_one_first() -> None:
    """Each division joins two groups of the one before it, down to one; tables begin with few nodes."""
    problem = multi_problem(three_classes())
    kinds = [chiplet.kind for chiplet in problem.instance.module.chiplets]
    divisions = [{frozenset(group.tolist()) for group in one.groups} for one in counts.all_counts(problem)][-3:]
    assert list(map(len, divisions)) == [3, 2, 1]
    for fine, coarse in pairwise(divisions):
        assert all(any(group <= other for other in coarse) for group in fine)
    assert {c for c, kind in enumerate(kinds) if kind == "shidiannao"} in divisions[1]
    sizes = [one.signatures for one in programs.kinds_of_tables(problem)]
    assert sizes[0] <= programs.MANY < sizes[-1]
    assert all(programs.FEWER * few < many for few, many in pairwise(sizes))


@pytest.mark.parametrize("left", [1.0, 3.0, 10.0, 60.0, inf])
def test_a_step_fits_the_time_and_the_memory(left: float) -> None:
    """Of 20 and 200 nodes: less time leads to no less loss, and no step is there where none fits."""
    kinds, at = [SimpleNamespace(signatures=20), SimpleNamespace(signatures=200)], programs.Step(0, 0.2)
    found = []
    for seconds in (left, 2 * left):
        run, deadline = SimpleNamespace(options=SolveOptions()), SimpleNamespace(seconds=seconds)
        turn = SimpleNamespace(deadline=deadline)
        bound = SimpleNamespace(run=run, turn=turn, spent=(1.0, 0.5), entries=100_000)
        step = programs._next(bound, kinds, at)  # type: ignore[arg-type]
        found.append(step)
        if step is not None:
            assert programs._seconds(bound, kinds, at, step) <= seconds  # type: ignore[arg-type]
    assert (found[0] is None) == (left == 1.0) and found[1] is not None
    losses = [programs.loss(kinds, step) for step in found if step is not None]  # type: ignore[arg-type]
    assert losses == sorted(losses, reverse=True)


def test_after_tables_in_vain_come_more_nodes_that_fit() -> None:
    """They may take longer than others may, but not longer than there is time."""
    kinds, at = [SimpleNamespace(signatures=20), SimpleNamespace(signatures=200)], programs.Step(0, 0.2)
    for left, vain, kind in ((100.0, True, 1), (100.0, False, 0), (30.0, True, 0)):
        turn = SimpleNamespace(deadline=SimpleNamespace(seconds=left))
        run = SimpleNamespace(options=SolveOptions())
        bound = SimpleNamespace(run=run, turn=turn, spent=(6.0, 3.0), entries=100_000)
        step = programs._next(bound, kinds, at, vain)  # type: ignore[arg-type]
        assert step is not None and step.kind == kind


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (3, 1, 2)])
def test_sets_of_numbers_are_what_loops_say(sizes: tuple[int, ...]) -> None:
    """Sets within others, beside others, and which set each model gets."""
    vectors = list(product(*map(range, sizes)))
    number, random = {vector: at for at, vector in enumerate(vectors)}, np.random.default_rng(0)
    mask = random.permutation(len(vectors))[: max(1, len(vectors) // 2)]
    places = Vectors(mask, random.permutation(len(mask)), sizes)
    value = random.integers(0, 9, (len(mask), 3)).astype(float)

    def within(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return all(a <= b for a, b in zip(one, other, strict=True))

    for vector in vectors:
        own = [value[s] for k, s in zip(mask, places.signature, strict=True) if within(vectors[k], vector)]
        np.testing.assert_array_equal(places.least(value, 7.0)[number[vector]], np.min([*own, [7.0] * 3], axis=0))
        listed = places.within(number[vector], value[:, 0], len(mask))
        assert sorted(amount for amount, _ in listed) == sorted(row[0] for row in own)
    sets = [random.integers(0, 50, (len(vectors), 3)).astype(float) for _ in range(3)]
    beside = places.side_by_side(sets[0], sets[1])
    for vector in vectors:
        rests = [(a, tuple(v - x for v, x in zip(vector, a, strict=True))) for a in vectors if within(a, vector)]
        least = np.min([sets[0][number[a]] + sets[1][number[b]] for a, b in rests], axis=0)
        np.testing.assert_array_equal(beside[number[vector]], least)
    total = tuple(size - 1 for size in sizes)
    for a, b in product(vectors, vectors):
        fit = within(tuple(x + y for x, y in zip(a, b, strict=True)), total)
        assert bool(places.apart(np.array([number[a]]), np.array([number[b]]))[0]) == fit


@pytest.mark.parametrize("models", [1, 2, 3])
@pytest.mark.parametrize("places", [Vectors(NONE, NONE, (3, 2)), Vectors(NONE, NONE, (5,)), Places(NONE, NONE, 0, 3)])
def test_models_beside_each_other_are_what_loops_say(places: Vectors | Places, models: int) -> None:
    """The least sum by cell, and sets that have it and together are all chiplets."""
    random, top = np.random.default_rng(models), places.sets - 1
    sets = [random.integers(0, 50, (places.sets, 3)).astype(float) for _ in range(models)]
    beside = Beside(places, sets)
    pairs = [(a, b) for a, b in product(range(places.sets), repeat=2) if places.apart(np.array([a]), np.array([b]))[0]]
    ways: list[tuple[int, ...]] = [(a,) for a in range(places.sets)]
    for _ in range(models - 1):
        ways = [(*way, b) for way in ways for a, b in pairs if a == sum(way)]
    ways = [way for way in ways if sum(way) == top]
    for cell in range(3):
        costs = {way: sum(own[a, cell] for own, a in zip(sets, way, strict=True)) for way in ways}
        assert beside.least[cell] == min(costs.values()) == costs[tuple(beside.divide(cell))]
