"""Evaluation, bounds and annealing on random instances, against the checker and all schedules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.multimodel.annealing.moves import anneal
from chipmap.heuristics.multimodel.annealing.search import SHARES, Annealing, segments
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.bounds import least_objective
from chipmap.heuristics.multimodel.energy import Energy
from chipmap.heuristics.multimodel.starts import packed
from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows, Line, bound, product_ticks
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import random_instance, scenario
from chipmap.instances.multimodel.problem import multi_problem, placed, schedule, terms
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Limits
from chipmap.methods.multimodel import chain
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force, count
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import made, tiny_instance


def instances(seed: int, number: int, most: int = 3_000) -> Iterator[MultiInstance]:
    """Random instances with at most so many candidates."""
    random = Random(seed)
    made = (tiny_instance(random) for _ in range(1_000_000))
    return islice((one for one in made if count(one) <= most), number)


def test_the_evaluation_says_what_the_checker_says() -> None:
    """On every candidate of 60 instances that obeys C0 and C1: T1, T2 and objective."""
    compared = 0
    for instance in instances(1, 60):
        problem = multi_problem(instance)
        for solution in islice(candidates(instance), 0, 600, 5):
            certificate = check(instance, solution)
            if certificate.objective is not None:
                compared += 1
                time, energy = terms(problem, placed(problem, solution))
                assert (time, energy) == (certificate.terms["T1"], certificate.terms["T2"])
                assert problem.objective(time, energy) == certificate.objective
                assert time <= problem.most_time and energy <= problem.most_energy
    assert compared > 500, compared


def test_no_bound_exceeds_an_optimum() -> None:
    """Closed form and linear program, for three weights each."""
    for instance in instances(2, 60):
        optimum, _ = brute_force(instance, check)
        problem, lines = multi_problem(instance), list[Line]()
        program = AnyWindows(problem)
        for factor in (0.3, 1.0, 3.0):
            value = bound(program, lines, factor * program.least[1] / program.least[0])
            assert optimum is None or max(value, least_objective(problem)) <= optimum


def test_lines_hold_for_every_schedule() -> None:
    """rate · T1 + T2 of all valid schedules lies above the line of that rate, and EDP above what follows from it."""
    for instance in instances(3, 20, 800):
        problem = multi_problem(instance)
        program = AnyWindows(problem)
        rate = program.least[1] / program.least[0]
        line = program.line(rate)
        for solution in candidates(instance):
            certificate = check(instance, solution)
            found = certificate.terms
            if certificate.feasible:
                assert rate * found["T1"] + found["T2"] >= line.value
                assert found["T1"] * found["T2"] >= product_ticks([line], program.least, 1)


def test_the_least_energy_is_that_of_all_schedules() -> None:
    """Without limits: the bound holds, and is the optimum wherever the program's own schedule has it."""
    proved = 0
    for instance in instances(5, 60):
        task = instance.task.replace(objective="energy", latency_limit_ns=None)
        models = tuple(model.replace(deadline_ns=None) for model in instance.models)
        plain = instance.replace(task=task, models=models)
        optimum, _ = brute_force(plain, check)
        program, windows = Energy(multi_problem(plain)), Energy(multi_problem(plain)).schedule()
        assert optimum is None or program.bound <= optimum
        if windows is not None:
            certificate = check(plain, schedule(multi_problem(plain), windows))
            assert {violation.label for violation in certificate.violations} <= {"C5"}
            if certificate.feasible:
                assert optimum is not None and certificate.objective is not None and certificate.objective >= optimum
                proved += certificate.objective == program.bound == optimum
    assert proved > 30, proved


#: Each move of the annealing in half of all cases.
SHARED = [tuple(0.5 * (i == j) + 0.5 * share for j, share in enumerate(SHARES)) for i in range(len(SHARES))]


def larger(random: Random) -> MultiInstance:
    """An instance of two or three models with up to 12 layers on four or six chiplets, in up to four windows."""
    task = {
        "objective": random.choice(("latency", "energy", "weighted", "edp")),
        "windows": random.randint(2, 4),
        "charge": random.choice(("sender", "both")),
    }
    return random_instance(
        layers=tuple(random.randint(3, 12) for _ in range(random.randint(2, 3))),
        rows=2,
        columns=random.choice((2, 3)),
        mini_batch=random.choice((1, 2, 4)),
        sram_bytes=random.choice((None, 3_500_000)),
        topology=random.choice(("mesh", "triangular")),
        seed=random.randrange(10**6),
        task=task,
    )


@pytest.mark.parametrize("shares", SHARED)
def test_moves_keep_to_the_rules_and_count_right(shares: tuple[float, ...]) -> None:
    """After every 25 moves, mostly of one kind, the state obeys C0 to C5, and its terms are those of the checker."""
    random, seen = Random(7), set()
    for seed in range(8):
        instance = larger(random)
        problem = multi_problem(instance)
        start = whole_models(problem)
        assert start is not None
        search = Annealing(problem, start, seed)
        for _ in search.run(300, Deadline(), 0.5, 0.5):  # away from whole models
            pass
        search.tables = search.tables._replace(shares=np.cumsum(shares))
        for _ in range(30):
            anneal(search.tables, search.state, search.best, search.room, 25, 0.5, 0.5, 0.1)
            windows = segments(search.state)
            certificate = check(instance, schedule(problem, windows))
            assert certificate.feasible, certificate.violations
            assert tuple(search.state.totals[:2]) == terms(problem, windows)
            assert tuple(search.state.totals[:2]) == (certificate.terms["T1"], certificate.terms["T2"])
            seen.add(str(windows))
    assert len(seen) > 50, "nothing moves"


def test_the_value_counts_limits_and_deadlines() -> None:
    """A state's value is the objective, exactly where the checker finds no violation of C4."""
    met = 0
    for instance in instances(4, 40):
        problem = multi_problem(instance)
        start = whole_models(problem)
        if start is None:
            continue
        search = Annealing(problem, start, 1)
        for _ in range(40):
            anneal(search.tables, search.state, search.best, search.room, 5, 0.5, 0.5, 0.1)
            certificate = check(instance, schedule(problem, segments(search.state)))
            time, energy = terms(problem, segments(search.state))
            watts = instance.task.watts
            plain = {"latency": time, "energy": energy, "weighted": 1000 * watts * time + energy, "edp": time * energy}
            penalty = search.state.value[0] / plain[instance.task.objective] - 1
            assert (penalty > 1e-9) == bool(certificate.violations)
            met += bool(certificate.violations)
    assert met > 20


@pytest.mark.parametrize("seed", range(3))
def test_annealing_finds_valid_schedules_at_the_value_that_it_says(seed: int) -> None:
    """Better and better ones; with 3,000 moves the optimum in most instances without limits."""
    met = tried = 0
    for instance in instances(10 + seed, 12):
        problem, start = multi_problem(instance), whole_models(multi_problem(instance))
        if start is None:
            continue
        search, last = Annealing(problem, start, seed), None
        for windows in search.run(3_000, Deadline()):
            certificate = check(instance, schedule(problem, windows))
            assert {violation.label for violation in certificate.violations} <= {"C4"}
            if certificate.feasible:
                assert certificate.objective is not None and (last is None or certificate.objective <= last)
                last = certificate.objective
        optimum, _ = brute_force(instance, check)
        tried += optimum is not None
        met += (
            optimum is not None
            and min(last or 10**30, check(instance, schedule(problem, start)).objective or 0) <= optimum
        )
    assert met >= tried // 2 > 0


def test_full_chiplets_are_a_start_where_whole_models_fit_nowhere() -> None:
    """Of 60 instances in which a model fits no chiplet, though there are schedules, most get one at once."""
    random, had, missed = Random(6), 0, 0
    while had + missed < 60:
        instance = made(random.randrange(10**6), layers=(3, 2), rows=2, sram_bytes=600_000, topology="triangular")
        problem = multi_problem(instance)
        if whole_models(problem) is not None:
            continue
        windows = packed(problem)
        if windows is not None:
            assert check(instance, schedule(problem, windows)).feasible
            had += 1
        else:
            missed += brute_force(instance, check)[0] is not None
    assert missed <= 3, missed


def test_full_chiplets_on_a_large_instance() -> None:
    """Scenario 8 on chiplets of 32 MB: a valid schedule, and annealing from it keeps to C5."""
    instance = scenario(8)
    chiplets = tuple(chiplet.replace(sram_bytes=32_000_000) for chiplet in instance.module.chiplets)
    limited = instance.replace(module=instance.module.replace(chiplets=chiplets))
    problem = multi_problem(limited)
    assert whole_models(problem) is None
    start = packed(problem)
    assert start is not None and check(limited, schedule(problem, start)).feasible
    for windows in Annealing(problem, start, 0).run(20_000, Deadline()):
        assert check(limited, schedule(problem, windows)).feasible


@pytest.mark.parametrize(("deterministic", "left"), [(True, 100.0), (False, 20.0)])
def test_a_weight_of_the_mip_has_its_work_whatever_the_clock_has_left(
    monkeypatch: pytest.MonkeyPatch, deterministic: bool, left: float
) -> None:
    asked = list[Limits]()

    def solved(run: Run, model: object, finds: object, start: object, limits: Limits) -> None:
        """No solver: what it would have been given."""
        asked.append(limits)
        raise Stop

    monkeypatch.setattr(chain, "solve_within", solved)
    one = next(one for one in instances(1, 60) if one.task.objective == "edp")
    run = Run(one, SolveOptions(time_limit=100.0, deterministic=deterministic), check)
    run.started -= 80.0
    with pytest.raises(Stop):
        chain.model_by_mip(multi_problem(one), Turn(run, run.deadline))
    assert asked[0].seconds == pytest.approx(chain.SLICE * left, abs=0 if deterministic else 1.0)
