"""Tables against real segmentations: no entry lies above one, and the formula of the tables is met exactly."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, pairwise
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.multimodel.baselines import fits
from chipmap.heuristics.multimodel.tables.paths import Paths, module_paths
from chipmap.heuristics.multimodel.tables.ranges import Table, bottlenecks, build
from chipmap.heuristics.multimodel.tables.segmentation import Chain
from chipmap.instances.multimodel.generators import scenario
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, Segment, energy, latency, multi_problem
from tests.multimodel.random_instances import made

#: Each feature that the tables must mind, in a small instance: rows, columns, layers and what else.
FEATURES: dict[str, dict[str, object]] = {
    "pipelined": {"layers": (11, 4), "rows": 2, "columns": 2},
    "hops differ": {"layers": (6, 9), "rows": 2, "columns": 3, "batch": 8, "mini_batch": 2},
    "whole batch": {"layers": (7,), "rows": 2, "columns": 3, "mini_batch": 4},
    "memory": {"layers": (9, 3), "rows": 2, "columns": 2, "sram_bytes": 900_000},
    "both ends pay": {"layers": (9, 3), "rows": 2, "columns": 3, "task": {"charge": "both"}},
    "triangular": {"layers": (10,), "rows": 2, "columns": 2, "topology": "triangular"},
}


def problem_of(feature: str, seed: int) -> MultiProblem:
    return multi_problem(made(seed, windows=2, **FEATURES[feature]))  # type: ignore[arg-type]


def edges_up_to(most: int, cells: int) -> np.ndarray:
    return np.unique(np.concatenate([[0], np.geomspace(most / 100, most, cells).round()])).astype(np.int64)


def longest(problem: MultiProblem) -> int:
    """Lat of the slowest model whole on one chiplet."""
    whole = [(m, 0, model.layers - 1, c) for m, model in enumerate(problem.models) for c in range(problem.chiplets)]
    return max(latency(problem, [segment]) for segment in whole)


def random_segments(problem: MultiProblem, m: int, random: Random) -> list[Segment]:
    """A random range of model m in random segments along a random path."""
    layers = problem.models[m].layers
    first = random.randrange(layers)
    last = random.randrange(first, layers)
    path = [random.randrange(problem.chiplets)]
    while random.random() < 0.8:
        near = [c for c in problem.neighbours[path[-1]] if c not in path]
        if not near or len(path) > last - first:
            break
        path.append(random.choice(near))
    cuts = sorted(random.sample(range(first + 1, last + 1), len(path) - 1))
    starts = [first, *cuts, last + 1]
    return [(m, starts[i], starts[i + 1] - 1, c) for i, c in enumerate(path)]


def bound_of(table: Table, edges: IntArray, paths: Paths, segments: list[Segment], lat: int) -> float:
    """What the table says of windows that these segments fit into."""
    mask = sum(1 << c for _, _, _, c in segments)
    within = np.array([bool(((own & mask) == own).any()) for own in paths.masks])
    at = (table.first == segments[0][1]) & (table.last == segments[-1][2])
    at &= table.cell <= max(0, int(np.searchsorted(edges, lat)) - 1)
    at &= within[table.signature]
    return float(table.energy[at].min(initial=np.inf))


@pytest.mark.parametrize("feature", FEATURES)
def test_no_entry_lies_above_a_real_segmentation(feature: str) -> None:
    random = Random(feature)
    for seed in range(3):
        problem = problem_of(feature, seed)
        paths = module_paths(problem)
        assert paths is not None
        edges = edges_up_to(longest(problem), 25)
        for m, model in enumerate(problem.models):
            table = build(problem, m, paths, edges, [50, 400], Deadline())
            assert (table.energy >= 0).all()
            assert (table.first <= table.last).all() and (table.last < model.layers).all()
            for _ in range(300):
                segments = random_segments(problem, m, random)
                lat = latency(problem, segments)
                if lat <= edges[-1] and all(fits(problem, segment) for segment in segments):
                    assert bound_of(table, edges, paths, segments, lat) <= energy(problem, segments)


@pytest.mark.parametrize("feature", FEATURES)
def test_tables_of_time_alone_say_where_a_range_first_fits(feature: str) -> None:
    """No real segmentation is shorter, and tables with energies begin at the same cells."""
    random = Random(feature)
    for seed in range(3):
        problem = problem_of(feature, seed)
        paths = module_paths(problem)
        assert paths is not None
        edges = edges_up_to(longest(problem), 25)
        for m, model in enumerate(problem.models):
            table = build(problem, m, paths, edges, None, Deadline())
            full = build(problem, m, paths, edges, [50, 400], Deadline())
            for _ in range(200):
                segments = random_segments(problem, m, random)
                lat = latency(problem, segments)
                if lat <= edges[-1] and all(fits(problem, segment) for segment in segments):
                    assert bound_of(table, edges, paths, segments, lat) == 0
            shortest = np.full((2, model.layers, model.layers), len(edges))
            for k, one in enumerate((table, full)):
                np.minimum.at(shortest[k], (one.first, one.last), one.cell)
            assert (shortest[0] == shortest[1]).all()


def test_scenario_8_holds() -> None:
    problem, random = multi_problem(scenario(8)), Random(8)
    paths = module_paths(problem)
    assert paths is not None
    edges = edges_up_to(longest(problem), 12)
    table = build(problem, 1, paths, edges, [400], Deadline())
    near = 0.0
    for _ in range(500):
        segments = random_segments(problem, 1, random)
        lat, cost = latency(problem, segments), energy(problem, segments)
        bound = bound_of(table, edges, paths, segments, lat)
        assert bound <= cost
        near = max(near, bound / cost)
    assert near > 0.9


def all_segmentations(problem: MultiProblem, first: int, last: int, path: tuple[int, ...]) -> list[list[Segment]]:
    """Every cut of a range of model 0 along a path."""
    found = []
    for cuts in combinations(range(first + 1, last + 1), len(path) - 1):
        starts = [first, *cuts, last + 1]
        found.append([(0, starts[i], starts[i + 1] - 1, c) for i, c in enumerate(path)])
    return [one for one in found if all(fits(problem, segment) for segment in one)]


def times_of(problem: MultiProblem, segments: list[Segment]) -> tuple[int, int]:
    """(sum, most) of the segments' times, from Lat of the model with one sample more or less."""
    model = problem.models[0]
    weights = int(model.weight_time[segments[0][1] : segments[-1][2] + 1].sum())
    lat = latency(problem, segments)
    alone = []
    for i, (_, a, b, c) in enumerate(segments):
        time = int(model.time[a : b + 1, c].sum())
        time += int(model.read_time[a, c]) if i == 0 else int(model.send_time[a - 1]) * problem.both_ends
        time += int(model.write_time[b, c]) if i == len(segments) - 1 else int(model.send_time[b])
        alone.append(time)
    assert sum(alone) + weights + (model.q - 1) * max(alone) == lat
    return sum(alone), max(alone)


@pytest.mark.parametrize("feature", ["pipelined", "whole batch", "memory", "both ends pay"])
def test_the_formula_is_met(feature: str) -> None:
    """Brute force over all cuts and paths, cell by cell of the bottleneck, gives the table's values and no others."""
    given = {**FEATURES[feature], "layers": (4,), "rows": 2, "columns": 2}
    problem = multi_problem(made(31, windows=2, **given))  # type: ignore[arg-type]
    paths, model, rates = module_paths(problem), problem.models[0], [60, 300]
    assert paths is not None
    # cells so fine that each holds at most one bottleneck
    edges = np.arange(0, longest(problem) + 40, 40, dtype=np.int64)
    table = build(problem, 0, paths, edges, rates, Deadline())
    highs = bottlenecks(edges, model.q)[1:]
    checked = 0
    for first, last in [(0, 3), (0, 2), (1, 3), (2, 2), (1, 2)]:
        weights = int(model.weight_time[first : last + 1].sum())
        for mask in range(1, 1 << problem.chiplets):
            least = np.full(len(edges) - 1, np.inf)
            for own, ways in zip(paths.masks, paths.ways, strict=True):
                chosen = [way for one, way in zip(own, ways, strict=True) if one & mask == one]
                if not chosen or len(chosen[0]) > last - first + 1:
                    continue
                real = all_segmentations(problem, first, last, chosen[0])
                amounts = [(*times_of(problem, one), energy(problem, one)) for one in real]
                bounds = sorted({most for _, most, _ in amounts}) if model.q > 1 else [0]
                for most in bounds:
                    high = highs[np.searchsorted(highs, most)] if model.q > 1 else np.inf
                    allowed = [(total, cost) for total, longest, cost in amounts if longest <= high]
                    base = weights + (model.q - 1) * most
                    start = min(total for total, _ in allowed) + base
                    for t in range(int(np.searchsorted(edges, start)) - 1, len(least)):
                        spare = edges[t + 1] - base
                        value = max(
                            min(cost for _, cost in allowed),
                            *(min(cost + rate * total for total, cost in allowed) - rate * spare for rate in rates),
                        )
                        least[t] = min(least[t], value)
            least = np.minimum.accumulate(least)
            within = np.array([bool(((own & mask) == own).any()) for own in paths.masks])
            at = (table.first == first) & (table.last == last) & within[table.signature]
            said = np.full(len(edges) - 1, np.inf)
            np.minimum.at(said, table.cell[at], table.energy[at])
            assert np.array_equal(np.minimum.accumulate(said), least)
            checked += int(np.isfinite(least).any())
    assert checked > 20


@pytest.mark.parametrize("feature", ["pipelined", "hops differ", "memory", "both ends pay"])
def test_cautious_tables_count_the_most_that_a_cell_of_bottlenecks_allows(feature: str) -> None:
    """Brute force over all cuts and paths gives the same energies; plain tables say no more, and somewhere less."""
    given = {**FEATURES[feature], "layers": (6,), "rows": 2, "columns": 2}
    problem, rates, less = multi_problem(made(3, windows=2, **given)), [60, 300], 0  # type: ignore[arg-type]
    paths, model = module_paths(problem), problem.models[0]
    assert paths is not None and model.q > 1
    edges, coarse = edges_up_to(longest(problem), 30), edges_up_to(longest(problem), 6)
    tables = [build(problem, 0, paths, edges, rates, Deadline(), coarse, cautious) for cautious in (False, True)]
    ends = bottlenecks(coarse, model.q).tolist()
    for first, last in combinations_with_replacement(range(model.layers), 2):
        weights, least = int(model.weight_time[first : last + 1].sum()), np.full(len(edges) - 1, np.inf)
        for path in (ways[0] for ways in paths.ways if len(ways[0]) <= last - first + 1):
            real = all_segmentations(problem, first, last, path)
            amounts = [(*times_of(problem, one), energy(problem, one)) for one in real]
            for low, high in pairwise([-1, *ends[1:]]):
                allowed = [(total, cost) for total, most, cost in amounts if most <= high]
                slow = min((most for _, most, _ in amounts), default=0)
                base = weights + (model.q - 1) * (high if slow <= low else slow)
                for t, end in enumerate(edges[1:].tolist()):
                    if any(total + base <= end for total, _ in allowed):
                        bounds = [min(cost + r * total for total, cost in allowed) - r * (end - base) for r in rates]
                        least[t] = min(least[t], max(min(cost for _, cost in allowed), *bounds))
        said = np.full((2, len(edges) - 1), np.inf)
        for one, table in zip(said, tables, strict=True):
            at = (table.first == first) & (table.last == last)
            np.minimum.at(one, table.cell[at], table.energy[at])
        plain, careful = np.minimum.accumulate(said, axis=1)
        assert np.array_equal(careful, np.minimum.accumulate(least))
        assert (plain <= careful).all()
        less += int((plain < careful).any())
    assert less > 0


@pytest.mark.parametrize("feature", ["pipelined", "whole batch", "memory", "both ends pay"])
def test_segmentations_of_a_chain_are_the_best(feature: str) -> None:
    given = {**FEATURES[feature], "layers": (7,), "rows": 2, "columns": 2}
    checked = 0
    for seed in range(3):
        problem = multi_problem(made(seed, windows=2, **given))  # type: ignore[arg-type]
        paths = module_paths(problem)
        assert paths is not None
        for first, last in [(0, 6), (2, 6), (1, 5), (3, 3)]:
            chain = Chain(problem, (0, first, last), paths, [100, 500])
            for s in range(paths.signatures):
                path = paths.ways[s][0]
                real = all_segmentations(problem, first, last, path)
                pairs = [(latency(problem, one), energy(problem, one)) for one in real]
                front = {
                    one for one in pairs if not any(a <= one[0] and b <= one[1] for a, b in pairs if (a, b) != one)
                }
                latest = max((lat for lat, _ in pairs), default=10**9)
                found = chain.front(s, latest, 1e18)
                assert found is not None
                assert [(one.latency, one.energy) for one in found] == sorted(front)
                for one in found:
                    starts = [*one.starts, last + 1]
                    cut = [(0, starts[i], starts[i + 1] - 1, c) for i, c in enumerate(path)]
                    assert (latency(problem, cut), energy(problem, cut)) == (one.latency, one.energy)
                checked += len(found)
                if len(found) > 1:  # within a box
                    lat, cost = sorted(front)[len(front) // 2]
                    inside = [one for one in sorted(front) if one[0] <= lat and one[1] <= cost]
                    small = chain.front(s, lat, float(cost))
                    assert small is not None and [(one.latency, one.energy) for one in small] == inside
                    best = chain.best(s, lat, cost / 2)
                    assert best is not None and (best.latency, best.energy) == (lat, cost)
    assert checked > 60


def test_paths_of_the_module() -> None:
    paths = module_paths(multi_problem(scenario(8)))
    assert paths is not None
    assert (len(paths.types), len(paths.chiplet)) == (9, 2)
    assert sum(len(own) for own in paths.masks) < 653
    for s in range(paths.signatures):
        kinds = paths.types_of(s)
        for mask, way in zip(paths.masks[s], paths.ways[s], strict=True):
            assert tuple(int(paths.types[c]) for c in way) == kinds
            assert sum(1 << c for c in way) == mask
    # a smaller group's masks lie within each mask of a group
    for g, row in enumerate(paths.below):
        own = paths.masks[int(np.argmax(paths.group == g))]
        for h in row[row >= 0]:
            smaller = paths.masks[int(np.argmax(paths.group == h))]
            assert h < g and all(((smaller & mask) == smaller).any() for mask in own)


def test_the_deadline_stops_the_tables() -> None:
    problem = multi_problem(scenario(8))
    paths = module_paths(problem)
    assert paths is not None
    with pytest.raises(Stop):
        build(problem, 0, paths, edges_up_to(10**9, 20), [400], Deadline.after(0.0))
