"""Random tiny instances: every method against all schedules (more of them: ``benchmarks/multimodel_agreement.py``)."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice
from random import Random

import numpy as np
import pytest

from benchmarks.multimodel_agreement import MOST, OBJECTIVES, Tally, complaints, instances, methods
from chipmap.deadline import Deadline
from chipmap.formulations.multimodel.cpsat import build
from chipmap.formulations.multimodel.mip import build as build_mip
from chipmap.heuristics.multimodel.baselines import fits
from chipmap.heuristics.multimodel.bounds import least_energy, least_time
from chipmap.heuristics.multimodel.energy import Energy
from chipmap.heuristics.multimodel.tables.paths import module_paths
from chipmap.heuristics.multimodel.tables.ranges import build as build_table
from chipmap.heuristics.multimodel.windows import one_window
from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows, Line, energy_within, product_ticks
from chipmap.heuristics.multimodel.windows.one_window import OneWindow
from chipmap.instances.multimodel.problem import energy, latency, multi_problem
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.column_bound import ColumnBound
from chipmap.run import Run, SolveOptions
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.multimodel.checker import check
from tests.lanes import of_all
from tests.multimodel.enumeration import Schedules, combinations, schedules
from tests.multimodel.random_instances import varied_instance
from tests.multimodel.test_tables import bound_of, edges_up_to, longest, random_segments

LIMIT = 60.0
#: Methods that take long on an instance, or all of their time.
LONG = ("bounds", "mip", "scar-evolutionary")


def with_objective(known: Schedules, objective: str) -> Schedules:
    """The same schedules under another objective: they are valid or not whatever it is."""
    instance = known.instance.replace(task=known.instance.task.replace(objective=objective))
    return Schedules(instance, known.time, known.energy)


@cache
def asked() -> tuple[Schedules, ...]:
    """All schedules of the instances that every method is asked."""
    return tuple(schedules(base) for base in instances(7, of_all(16, few=5)))


def test_enumeration_finds_what_the_checker_finds() -> None:
    """The optima of all objectives on random instances, with and without schedules."""
    random, feasible, compared = Random(1), 0, 0
    while compared < of_all(16, few=8):
        base = varied_instance(random)
        if combinations(base) > 600:
            continue
        compared += 1
        for known in (with_objective(schedules(base), objective) for objective in OBJECTIVES):
            assert brute_force(known.instance, check)[0] == known.optimum
            feasible += known.optimum is not None
    assert of_all(20, few=10) < feasible < of_all(60, few=30)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("method", methods())
def test_no_method_contradicts_enumeration(method: str, objective: str) -> None:
    """Optima, bounds, schedules and proofs of infeasibility on random instances, by turns of two objectives each.

    Methods that take long are asked half of that.
    """
    wrong: list[str] = []
    for every in asked()[OBJECTIVES.index(objective) % 2 :: 4 if method in LONG else 2]:
        known = with_objective(every, objective)
        wrong += complaints(known.instance, known, method, LIMIT, Tally())
    assert not wrong


def test_cpsat_does_not_cut_off_the_least_product() -> None:
    """CP-SAT's presolve called 7 of these instances infeasible when the model had a product."""
    for base in islice(instances(1, 90), 20, of_all(90, few=50)):
        known = with_objective(schedules(base), "edp")
        outcome = solve_model(build(known.instance), SolveRequest(time_limit=LIMIT, threads=1), "cpsat")
        assert (None if outcome.objective is None else round(outcome.objective)) == known.optimum


def test_the_mip_of_an_edp_instance_minimises_its_weighted_sum() -> None:
    """For three weights: the least rate / 1000 · T1 + T2 of all schedules, rate in thousandths of a pJ per ns."""
    compared = 0
    for base in instances(3, of_all(10, few=6)):
        known = with_objective(schedules(base), "edp")
        for rate in (1, 40_000, 3_000_000):
            outcome = solve_model(build_mip(known.instance, {"rate": rate}), SolveRequest(time_limit=LIMIT, threads=1))
            if not len(known.time):
                assert outcome.termination.reason == "infeasible"
                continue
            compared += 1
            assert outcome.objective == pytest.approx((rate / 1000 * known.time + known.energy).min(), rel=1e-6)
    assert compared > of_all(12, few=6)


def test_bounds_for_any_number_of_windows_hold_for_all_schedules() -> None:
    """In closed form, of the linear program for any weight, of the program for energy; also near what is optimal."""
    near = compared = 0
    for base in instances(9, of_all(60, few=25)):
        known, problem = schedules(base), multi_problem(base)
        if not len(known.time):
            continue
        compared += 1
        time, least = int(known.time.min()), int(known.energy.min())
        assert least_time(problem) <= time and least_energy(problem) <= Energy(problem).bound <= least
        near += Energy(problem).bound == least
        program, lines = AnyWindows(problem), list[Line]()
        for rate in (0.0, 0.1, 1.0, 30.0, 1e3, 1e5):
            line = program.line(rate)
            lines.append(line)
            assert line.value <= (rate * known.time + known.energy).min()
        assert product_ticks(lines, program.least, 1) <= known.least_product
        for limit in (time, int(np.median(known.time))):
            assert energy_within(lines, program.least[1], limit) <= known.energy[known.time <= limit].min()
    assert compared > of_all(30, few=12) and near > 0.7 * compared


@pytest.mark.parametrize("objective", ["latency", "weighted", "edp"])
def test_lines_of_columns_hold_for_all_schedules(objective: str) -> None:
    """rate · T1 + T2 >= value for each line of coarse and of fine tables, and what they prove of the objective."""
    proved = 0.0
    for base in instances(17, of_all(20, few=8)):
        known = with_objective(schedules(base), objective)
        problem, run = multi_problem(known.instance), Run(known.instance, SolveOptions(deterministic=True), check)
        paths = module_paths(problem)
        assert paths is not None
        program = ColumnBound(problem, Turn(run, Deadline()), paths)
        for ratio in (0.15, 0.02):
            program.prove(program.stage(ratio))
        if known.optimum is not None:
            assert all(line.value <= (line.rate * known.time + known.energy).min() for line in program.lines)
            assert program.told <= known.optimum
            proved = max(proved, program.told / max(1, known.optimum))
    assert proved > 0.95


def test_no_table_lies_above_a_segmentation() -> None:
    """Also where layers, transfers and so whole segments take no time."""
    compared = 0
    for seed in range(of_all(120, few=60)):
        problem, random = multi_problem(varied_instance(Random(seed))), Random(seed)
        paths = module_paths(problem)
        assert paths is not None
        edges = np.unique([0, 1, *edges_up_to(longest(problem) + 2, 12)])
        for m in range(len(problem.models)):
            table = build_table(problem, m, paths, edges, [50, 400], Deadline())
            for _ in range(10):
                segments = random_segments(problem, m, random)
                lat = latency(problem, segments)
                if lat <= edges[-1] and all(fits(problem, segment) for segment in segments):
                    compared += 1
                    assert bound_of(table, edges, paths, segments, lat) <= energy(problem, segments)
    assert compared > of_all(1000, few=400)


@pytest.mark.parametrize("ratios", [(0.5,), (0.1, 0.02)])
def test_one_window_is_exact_however_coarse_its_cells(
    ratios: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tables say of one set of chiplets decides nothing of what real segmentations on another one need."""
    monkeypatch.setattr(one_window, "RATIOS", ratios)
    monkeypatch.setattr(one_window, "RATES", (1.0,))
    random, compared = Random(3), 0
    while compared < of_all(60, few=30):
        base = varied_instance(random)
        base = base.replace(task=base.task.replace(windows=1))
        if len(base.models) > len(base.module.chiplets) or combinations(base) > MOST:
            continue
        compared += 1
        known = with_objective(schedules(base), random.choice(OBJECTIVES))
        problem = multi_problem(known.instance)
        paths = module_paths(problem)
        assert paths is not None
        program = OneWindow(problem, paths)
        bounds = [find.bound for find in program.run(None, Deadline()) if find.bound is not None]
        assert (program.best, bounds[-1]) == (known.optimum, math.inf if known.optimum is None else known.optimum)
        assert all(known.optimum is None or bound <= known.optimum for bound in bounds)
