"""The baselines: SCAR's steps on examples worked by hand and against trying everything, schedules by the checker."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.baselines import Range, classes, pack, provide, whole_models
from chipmap.heuristics.multimodel.published import scar as search
from chipmap.heuristics.multimodel.published.scar import Evolution, Scar
from chipmap.heuristics.multimodel.published.scar_segments import Metric, Part, Segmentations
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.problem import MultiProblem, Segment, energy, latency, multi_problem, schedule
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import SMALL, made, tiny_instance
from tests.multimodel.test_search import instances


def test_windows_of_equal_time() -> None:
    """Twelve units in two windows of six; a layer that ends with its window belongs to it."""
    assert pack([[3, 3, 3, 3]], 1) == [[(0, 1)], [(2, 3)]]
    assert pack([[3, 3, 3, 3]], 0) == [[(0, 3)]]


def test_a_layer_across_two_windows_waits_for_the_next() -> None:
    """Both second layers would end behind 6: at 8 and at 10."""
    assert pack([[4, 4, 4], [5, 5]], 1) == [[(0, 0), (0, 0)], [(1, 2), (1, 1)]]


def test_a_layer_that_waits_begins_with_the_window() -> None:
    """Windows end at 3, 6, 9. The second model's second layer begins at 3, not at 2, so that its third ends at 7."""
    assert pack([[3, 3, 3, 3], [2, 2, 2]], 3) == [
        [(0, 0), (0, 0)],
        [(1, 1), (1, 1)],
        [(2, 2), (2, 2)],
        [(3, 3), None],
    ]


def test_a_layer_longer_than_a_window_goes_to_the_last_one() -> None:
    """Windows end at 4 and 8. The window without layers is left out."""
    assert pack([[10, 1, 1], [2, 2]], 2) == [[None, (0, 1)], [(0, 2), None]]


def by_the_paper(times: list[list[int]], splits: int) -> list[list[Range | None]]:
    """Algorithm 1 line by line, with windows that end at multiples of the horizon over n_splits + 1."""
    horizon = max(map(sum, times))
    ends = [Fraction((k + 1) * horizon, splits + 1) for k in range(splits)]
    windows = [[tuple[int, ...]()] * len(times) for _ in range(splits + 1)]
    for m, model in enumerate(times):
        inside, index, used = tuple[int, ...](), 0, Fraction(0)
        for layer, time in enumerate(model):
            while True:
                slack = None if index == len(ends) else ends[index] - used
                if slack is None or time <= slack:
                    inside += (layer,)
                    used += time
                    break
                windows[index][m] = inside
                used, inside = ends[index], ()
                index += 1
            windows[index][m] = inside
    spans = [[(own[0], own[-1]) if own else None for own in window] for window in windows]
    return [window for window in spans if any(window)]


def test_packing_is_the_papers_algorithm() -> None:
    random = Random(1)
    for _ in range(500):
        times = [[random.randint(1, 9) for _ in range(random.randint(1, 9))] for _ in range(random.randint(1, 4))]
        splits = random.randint(0, 5)
        assert pack(times, splits) == by_the_paper(times, splits)


@pytest.mark.parametrize(
    ("metrics", "nodes"),
    [
        ([1, 1, 1], [3, 3, 3]),
        ([5, 2, 2], [5, 2, 2]),
        ([1, 0], [8, 1]),  # 9 and at least 1: one too many
        ([1, 1], [4, 5]),  # 4.5 each is rounded up: one too many
        ([40, 30, 11, 1], [4, 3, 1, 1]),
        ([0, 0], [1, 1]),
    ],
)
def test_nodes_of_nine_chiplets(metrics: list[int], nodes: list[int]) -> None:
    """Equation 2, at least one each."""
    assert provide(metrics, 9) == nodes


def test_segmentations_are_the_best_of_all_cuts() -> None:
    """For each sequence of types the program's cuts, against all cuts; also with SRAM and both ends paying."""
    random, compared = Random(2), 0
    for _ in range(40):
        problem = multi_problem(tiny_instance(random))
        both = Segmentations(problem, Deadline(), range(problem.chiplets))
        for m, model in enumerate(problem.models):
            span, most = (0, model.layers - 1), min(3, problem.chiplets)
            best = both.best(m, span, most)
            found = min((value for begins in best for value in values(both, m, span, begins)), default=np.inf)
            everything = [
                value
                for count in range(1, min(most, both.paths.longest, model.layers) + 1)
                for cuts in combinations(range(1, model.layers), count - 1)
                for value in values(both, m, span, (0, *cuts))
            ]
            least = min(everything, default=np.inf)
            compared += least < np.inf
            assert found == pytest.approx(least) or found == least
    assert compared > 40


def values(both: Segmentations, m: int, span: Range, begins: tuple[int, ...]) -> list[float]:
    """The metric of a segmentation along each path, counted segment by segment."""
    found, problem = [], both.problem
    for path in both.paths.of[len(begins)].tolist():
        run = pieces(m, span, begins, path)
        apart = multi_problem(problem.instance)
        if all(fits(apart, piece) for piece in run):
            time, cost = latency(apart, run), energy(apart, run)
            found.append(both.metric.time * time + both.metric.energy * cost + both.metric.product * time * cost)
    return found


def pieces(m: int, span: Range, begins: tuple[int, ...], path: list[int]) -> list[Segment]:
    """Segments from where they begin."""
    return [(m, a, b - 1, c) for (a, b), c in zip(pairwise([*begins, span[1] + 1]), path, strict=True)]


def fits(problem: MultiProblem, piece: Segment) -> bool:
    """C5, from the records."""
    m, first, last, c = piece
    model, size = problem.instance.models[m], problem.instance.module.chiplets[c].sram_bytes
    layers = model.layers[first : last + 1]
    need = max(layer.in_bytes + layer.out_bytes for layer in layers) * model.mini_batch
    return size is None or sum(layer.weight_bytes for layer in layers) + need <= size


@pytest.mark.parametrize("metric", [Metric(1, 0, 0), Metric(0, 1, 0), Metric(0.5, 1, 0), Metric(0, 0, 1)])
def test_trees_are_all_tried(metric: Metric) -> None:
    """The best layouts with disjoint chiplets, against the product of all of them."""
    random = Random(3)
    for _ in range(60):
        sizes = [random.randint(1, 7) for _ in range(random.randint(1, 3))]
        count = sum(sizes)
        parts = Part(
            np.array([float(random.randint(1, 50)) for _ in range(count)]),
            np.array([float(random.randint(1, 50)) for _ in range(count)]),
            np.array([random.randint(1, 31) for _ in range(count)]),
        )
        bounds, top = np.cumsum([0, *sizes]), np.array([np.inf])
        least = np.zeros((2, len(sizes) + 1))
        for k in reversed(range(len(sizes))):
            own = slice(bounds[k], bounds[k + 1])
            least[:, k] = max(least[0, k + 1], parts.latency[own].min()), least[1, k + 1] + parts.energy[own].min()
        best = np.full(len(sizes), -1)
        assert search._trees(parts, bounds, least, metric, np.append(bounds[:-1], 0), best, top)
        wanted = [
            metric.time * max(parts.latency[list(pick)])
            + metric.energy * sum(parts.energy[list(pick)])
            + metric.product * max(parts.latency[list(pick)]) * sum(parts.energy[list(pick)])
            for pick in product(*(range(a, b) for a, b in pairwise(bounds.tolist())))
            if len(pick) == 1 or sum(parts.mask[list(pick)]) == np.bitwise_or.reduce(parts.mask[list(pick)])
        ]
        assert top[0] == pytest.approx(min(wanted)) if wanted else top[0] == np.inf


def judged(instance: MultiInstance, windows: list[list[Segment]]) -> int:
    """The checker's objective; limits (C4) may be broken, nothing else."""
    certificate = check(instance, schedule(multi_problem(instance), windows))
    assert {violation.label for violation in certificate.violations} <= {"C4"}
    assert certificate.objective is not None
    return certificate.objective


def test_schedules_are_valid_and_never_below_the_optimum() -> None:
    """All numbers of splits and the evolutionary search on 10 instances."""
    found = 0
    for instance in instances(4, 10):
        problem = multi_problem(instance)
        optimum, _ = brute_force(instance, check)
        free = instance.replace(
            task=instance.task.replace(latency_limit_ns=None, energy_limit_pj=None),
            models=tuple(model.replace(deadline_ns=None) for model in instance.models),
        )
        least, _ = brute_force(free, check)
        for splits in range(instance.task.windows):
            for method in (Scar(problem, Deadline()), Evolution(problem, Deadline(), 7)):
                windows = method.windows(splits)
                if windows is not None:
                    found += 1
                    value = judged(instance, windows)
                    assert least is not None and value >= least
                    assert optimum is None or optimum >= least
    assert found > 8


@pytest.mark.parametrize("objective", ["latency", "energy", "weighted", "edp"])
def test_one_model_in_one_window_is_solved(objective: str) -> None:
    """There SCAR's search leaves nothing out."""
    for seed in range(8):
        task = {"objective": objective, "windows": 1}
        instance = random_instance(layers=(4,), rows=2, columns=2, batch=8, seed=seed, task=task)
        windows = Scar(multi_problem(instance), Deadline()).windows(0)
        optimum, _ = brute_force(instance, check)
        assert windows is not None and judged(instance, windows) == optimum


def solved(instance: MultiInstance, method: str, **options: object) -> Result:
    """The result without a start."""
    return solve(instance, f"multimodel/{method}", SolveOptions.make(warm_start="none", threads=1, **options))


def test_standalone_and_simba_keep_to_one_class() -> None:
    instance = made(1, "edp", 2, layers=(3, 3), rows=2, columns=3)
    kinds = {chiplet.name: chiplet.kind for chiplet in instance.module.chiplets}
    for method in ("standalone", "simba"):
        result = solved(instance, method)
        assert result.solution is not None
        used = [piece for window in result.solution["windows"] for piece in window]
        assert len({kinds[piece["chiplet"]] for piece in used}) == 1
        if method == "standalone":
            assert all((piece["first"], piece["last"]) == (0, 2) for piece in used)
    assert [kind for kind, _ in classes(multi_problem(instance))] == ["nvdla", "shidiannao"]


def test_standalone_by_hand() -> None:
    """Two models of one layer each: both at once, the objective as the checker counts it."""
    instance = made(2, "latency", 2, layers=(1, 1), rows=1, columns=2, pattern="first", batch=1)
    windows = whole_models(multi_problem(instance))
    assert windows is not None and len(windows) == 1
    alone = [judged(instance.replace(models=(model,)), [[(0, 0, 0, 0)]]) for model in instance.models]
    assert judged(instance, windows) == max(alone)


def test_a_schedule_at_once() -> None:
    """The same windows with a chiplet per model, also of the evolutionary search."""
    instance = made(4, "edp", 3, layers=(5, 4, 3), rows=2, columns=3)
    problem = multi_problem(instance)
    for method in (Scar(problem, Deadline()), Evolution(problem, Deadline(), 1)):
        windows = method.windows(2, plain=True)
        assert windows is not None and judged(instance, windows) > 0
        assert all(len({segment[0] for segment in window}) == len(window) for window in windows)


def test_best_of_all_splits() -> None:
    for seed in range(6):
        instance = made(seed, "edp", 3, layers=(3, 2), rows=2, columns=2)
        one, best = solved(instance, "scar"), solved(instance, "scar-best")
        assert one.objective is not None and best.objective is not None and best.objective <= one.objective


def test_what_it_cannot_do_is_said() -> None:
    """More models than chiplets in a window; a limit; too little SRAM for so few nodes; too many chiplets."""
    crowd = made(9, "edp", 3, layers=(1, 1, 1), columns=1)
    result = solved(crowd, "scar")
    assert result.solution is None and any("chiplets: 1" in note.text for note in result.notes)
    tight = made(5, "latency", 1, sram_bytes=SMALL, layers=(2, 2))
    result = solved(tight, "scar")
    assert (result.solution is None and any("(C5)" in note.text for note in result.notes)) or result.infeasibility
    limited = made(2, "energy", task={"latency_limit_ns": 10})
    result = solved(limited, "scar")
    assert (result.solution is None and any("refused" in note.text for note in result.notes)) or result.infeasibility
    large = random_instance(layers=(1,), rows=9, columns=7, task={"windows": 1})
    with pytest.raises(InputError, match="63 chiplets"):
        solved(large, "scar")
    assert solved(large, "auto", time_limit=5.0).objective is not None


def test_the_evolutionary_search_repeats_itself() -> None:
    instance = made(3, "edp", 2, layers=(6, 5), rows=3, columns=3)
    problem = multi_problem(instance)
    one, two = (Evolution(problem, Deadline(), 5).windows(1) for _ in range(2))
    assert one == two and one is not None
    assert judged(instance, one) > 0
