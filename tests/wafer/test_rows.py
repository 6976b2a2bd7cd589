"""Rows: the programs against enumeration, the search over times and orders, and legal layouts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import structs

from chipmap.deadline import Deadline, StopReason
from chipmap.heuristics.wafer.rows.chain import lay, row
from chipmap.heuristics.wafer.rows.folded import cuts, fit_runs, folded_row, foldings, lay_runs
from chipmap.heuristics.wafer.rows.kernel import INF
from chipmap.heuristics.wafer.rows.order_kernel import anneal_order, row_wires
from chipmap.heuristics.wafer.rows.single_row import RowProgram, best_row, path_bound, rows
from chipmap.heuristics.wafer.rows.times import Targets, TimeTrial, search_times
from chipmap.instances.wafer import Fabric, Placement, WaferInstance, Weights
from chipmap.instances.wafer.problem import TICKS, WaferProblem, depth_first_order, evaluate, size, wafer_problem
from chipmap.kernels.annealing import seeded
from tests.wafer.generated import generated
from tests.wafer.rows_by_hand import DIAMOND, PATH, TRIANGLE, conv, legal, options, table, tiny


def ignore(score: int, placements: object) -> None:
    """No interest in steps on the way."""


def enumerate_row(problem: WaferProblem, order: Sequence[int], tau: int | None = None) -> int:
    """The least score of a row in ``order`` by enumeration.

    With ``tau`` all kernels run within it, time costs nothing, and the row may be longer than the fabric.
    """
    limit = problem.longest if tau is None else tau
    choices = (options(problem, i, problem.width, problem.height, limit) for i in range(problem.n))
    tables = [table(problem, i, found, tau is None) for i, found in enumerate(choices)]
    n, weights = len(order), problem.instance.weights

    def column(kernel: int, which: int) -> np.ndarray:
        shape = [1] * n
        shape[order.index(kernel)] = -1
        return tables[kernel][:, which].reshape(shape)

    along = [column(kernel, 6) for kernel in order]
    time = np.maximum.reduce(np.broadcast_arrays(*(column(kernel, 5) for kernel in order)))
    score = weights.time * time
    for u, v in problem.edges.tolist():
        a, b = sorted((order.index(u), order.index(v)))
        wire = along[a] + along[b] + 2 * sum(along[a + 1 : b]) + (column(u, 4) != column(v, 4))
        adapters = (column(u, 0) != column(v, 0)) * 1 + (column(u, 1) != column(v, 1)) + (column(u, 3) != column(v, 2))
        score = score + 2 * weights.wire * wire + TICKS * weights.adapter * adapters
    if tau is None:
        score = np.where(sum(along) <= problem.width, score, INF)
    return int(score.min())


@pytest.mark.parametrize("seed", range(6))
def test_the_best_row_of_a_path_is_that_of_enumeration_over_all_orders(seed: int) -> None:
    problem = tiny(seed, PATH, side=9, blocks=seed >= 4)
    program = RowProgram(problem)
    result = best_row(program, Deadline(), ignore)
    assert result.placements is not None and result.parts is not None and result.exact
    assert legal(problem, result.placements)
    least = min(enumerate_row(problem, order) for order in itertools.permutations(range(problem.n)))
    assert path_bound(program, Deadline()) <= result.bound <= least <= result.parts.score
    if sum(size(p)[0] for p in result.placements) < problem.width:
        assert result.bound == result.parts.score


@pytest.mark.parametrize("seed", range(4))
def test_no_floorplan_of_a_path_is_below_its_bound(seed: int) -> None:
    problem = tiny(seed, PATH, side=9, weights=Weights(time=1, wire=40, adapter=seed))
    program = RowProgram(problem)
    bound = path_bound(program, Deadline())
    choices = [options(problem, i, 9, 9, problem.longest) for i in range(problem.n)]
    draw, checked = random.Random(seed), 0
    for _ in range(4000):
        placements = []
        for some in choices:
            p = min(draw.sample(some, 3), key=lambda p: size(p)[0] * size(p)[1])
            x, y = (draw.randint(0, 9 - side) for side in size(p))
            placements.append(structs.replace(p, x=x, y=y))
        if legal(problem, placements):
            checked += 1
            assert bound <= evaluate(problem, placements).score
    assert checked > 50
    best = best_row(program, Deadline(), ignore)
    assert best.parts is not None and bound <= best.parts.score


def test_only_paths_have_this_bound() -> None:
    problem = tiny(0, TRIANGLE, side=9)
    assert path_bound(RowProgram(problem), Deadline()) == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_chain_program_is_exact_at_a_target_time(seed: int) -> None:
    problem = tiny(seed, PATH, side=12, blocks=seed >= 2)
    program = RowProgram(problem)
    tau = problem.longest // (2 + seed)
    chain = program.at(tau, Deadline())(program.row)
    assert chain is not None and program.exact
    assert chain.value == enumerate_row(problem, program.row.order, tau)


@pytest.mark.parametrize("edges", [TRIANGLE, DIAMOND])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_residual_blocks_are_those_of_enumeration(seed: int, edges: tuple[tuple[int, int], ...]) -> None:
    problem = tiny(seed, edges, side=9, weights=Weights(time=1, wire=1 + seed // 2, adapter=2 * seed))
    program = RowProgram(problem)
    tau = problem.longest // (2 + seed)
    chain = program.at(tau, Deadline())(program.row)
    assert program.parts is not None and not program.exact and chain is not None
    assert chain.value == enumerate_row(problem, program.row.order, tau)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_any_graph_costs_what_its_program_says(seed: int) -> None:
    problem = tiny(seed, ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)), side=40)
    program = RowProgram(problem, (2, 0, 1, 4, 3))
    assert program.parts is None and not program.exact
    tau = problem.longest // 3
    chain = program.at(tau, Deadline())(program.row)
    assert chain is not None and chain.along <= problem.width
    placements = lay(problem, program.row, chain.choices)
    parts = evaluate(problem, placements)
    assert legal(problem, placements) and parts.time <= tau
    assert chain.value == parts.score - problem.instance.weights.time * parts.time


def residual(blocks: int, side: int) -> WaferProblem:
    """A chain of dblock-like triangles of small convolutions on a small fabric."""
    kernels, edges = [], []
    for b in range(blocks):
        a = 3 * b
        kernels += [conv(f"k{a}", 8, 8, 8, 4), conv(f"k{a + 1}", 8, 8, 4, 4, r=3), conv(f"k{a + 2}", 8, 8, 4, 8)]
        edges += [(a, a + 1), (a + 1, a + 2), (a, a + 2)] + ([(a - 1, a)] if b else [])
    instance = WaferInstance(
        name="residual",
        kernels=tuple(kernels),
        edges=tuple((f"k{u}", f"k{v}") for u, v in edges),
        fabric=Fabric(width=side, height=side),
        weights=Weights(time=2, wire=10, adapter=50),
    )
    instance.check()
    return wafer_problem(instance)


def test_rows_improve_step_by_step_and_stay_legal() -> None:
    problem = residual(3, 24)
    scores: list[int] = []

    def improved(score: int, placements: tuple[Placement, ...]) -> None:
        assert legal(problem, placements) and evaluate(problem, placements).score == score
        scores.append(score)

    solution = rows(problem, Deadline(), improved)
    assert solution is not None and scores == sorted(scores, reverse=True)
    assert evaluate(problem, solution.placements).score == scores[-1]
    again = rows(problem, Deadline(), ignore)
    assert again == solution


def test_rows_stop_when_told() -> None:
    problem = residual(3, 24)
    assert rows(problem, Deadline.after(0.0), ignore) is None
    asked: list[int] = []

    def after_a_few() -> StopReason | None:
        asked.append(1)
        return None if len(asked) < 6 else "interrupted"

    steps: list[int] = []
    solution = rows(problem, Deadline(ended=after_a_few), lambda score, placements: steps.append(score))
    assert len(asked) < 12
    assert (solution is None) == (not steps)


def test_parts_that_cost_less_than_nothing_make_no_folding_of_one_without_room() -> None:
    """At this time of tests/wafer/generated.py's seed 26 one end can be folded, the other one can't."""
    problem = wafer_problem(generated(26))
    program = RowProgram(problem)
    for folding in foldings(problem, program.row, 25_690_112):
        assert 0 <= folding.wires < INF // 2
        assert [p for run in folding.runs for p in range(run.first, run.end)] == list(range(problem.n))
        assert all(run.first < run.end and run.height for run in folding.runs)


@pytest.mark.parametrize(("side", "tau"), [(24, 2000), (30, 1000)])
def test_foldings_are_laid_out_legally_within_their_times(side: int, tau: int) -> None:
    problem = residual(3, side)
    program = RowProgram(problem)
    assert cuts(program.row) == [0, 3, 6, 9]
    folded = 0
    for folding in foldings(problem, program.row, tau):
        assert [run.first for run in folding.runs[1:]] == [run.end for run in folding.runs[:-1]]
        line = folded_row(problem, program.row, folding.runs)
        chain = fit_runs(problem, line, folding.runs, program.at(tau, Deadline()))
        assert chain is not None
        placements = lay_runs(problem, line, folding.runs, chain.choices)
        assert legal(problem, placements) and evaluate(problem, placements).time <= tau
        folded += len(folding.runs) > 1
    assert folded > 0


def test_the_search_over_times_finds_the_least_score_of_a_falling_cost() -> None:
    rest = [10_000 // t + 7 * (t < 40) for t in range(1, 400)]
    tried: list[int] = []

    def attempt(tau: int) -> TimeTrial[int]:
        tried.append(tau)
        if tau < 13:
            return TimeTrial(INF, 0, tau, None)
        return TimeTrial(rest[tau - 1], 3 * tau + rest[tau - 1], tau, tau)

    steps: list[int] = []
    found = search_times(attempt, Targets(1, 399, 3), Deadline(), lambda score, tau: steps.append(score))
    least = min(3 * t + rest[t - 1] for t in range(13, 400))
    assert found.score == found.bound == least == steps[-1]
    assert len(tried) == found.tried < 200


def test_annealing_finds_the_shortest_order() -> None:
    widths = np.array([3, 1, 4, 1, 5, 2], dtype=np.int64)
    edges = np.array([[0, 3], [3, 5], [1, 4], [4, 0], [2, 5], [1, 2]], dtype=np.int64)
    centres = np.zeros(6, np.int64)
    wires = {p: row_wires(np.array(p), widths, edges, centres) for p in itertools.permutations(range(6))}
    found = anneal_order(np.arange(6), widths, edges, 20_000, seeded(1))
    assert wires[tuple(int(i) for i in found)] == min(wires.values())


def test_wires_of_a_row_are_the_sum_of_its_prices() -> None:
    problem = residual(2, 60)
    line = row(problem, depth_first_order(problem).tolist())
    half = 2 * problem.instance.weights.wire
    assert [price // half for price in line.prices] == [2, 4, 3, 3, 4, 2]
