"""Family ``multimodel``: what chiplets share, against the page and against all schedules of tiny instances."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.formulations.multimodel.mip import build
from chipmap.heuristics.multimodel.annealing.search import Annealing, segments, state
from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import random_instance, scenario
from chipmap.instances.multimodel.instance import of_models
from chipmap.instances.multimodel.problem import multi_problem, placed, schedule, terms
from chipmap.instances.multimodel.timeline import all_energies, timeline
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.lanes import of_all
from tests.multimodel.page_shared import KINDS, free_of, judged, optimum, shared_instance, value

OBJECTIVES = ("latency", "energy", "weighted", "edp")
SHARED: dict[str, Any] = {
    "shared_dram_bytes_per_ns": 0.7,
    "shared_link_bytes_per_ns": 0.31,
    "static_watts": 0.125,
}


#: Rates at which windows are now as long as their bytes, now as long as their slowest model.
BINDING = SHARED | {"shared_dram_bytes_per_ns": 30.0, "shared_link_bytes_per_ns": 14.0}


def shared(instance: MultiInstance, **fields: Any) -> MultiInstance:
    """The instance with these fields of its module."""
    return instance.replace(module=instance.module.replace(**fields))


@pytest.mark.parametrize("kind", KINDS)
def test_every_exact_method_finds_the_optimum_of_all_schedules(kind: str) -> None:
    random, matters, options = Random(KINDS.index(kind)), 0, SolveOptions.make(threads=1, time_limit=60)
    for number in range(of_all(160, few=8)):
        instance = shared_instance(random, kind, OBJECTIVES[number % 4])
        best = optimum(instance)
        matters += best != optimum(instance.replace(module=free_of(instance).module))
        for method in ("auto", "cpsat"):
            found = solve(instance, f"multimodel/{method}", options)
            assert (found.status, found.objective) == ("infeasible" if best is None else "optimal", best), (
                number,
                method,
            )
            assert best is None or all(bound.value <= best for bound in found.bounds), (number, method)
        if instance.task.objective == "edp":
            continue
        model = build(instance)
        outcome = solve_model(model, SolveRequest())
        if best is None:
            assert outcome.termination.reason == "infeasible", number
            continue
        assert outcome.value_of is not None and outcome.bound is not None, number
        reached = check(instance, model.decode(outcome.value_of)).objective
        loose = (instance.task.windows + 1) * (1 + 1000 * (instance.task.watts + instance.module.static_watts))
        assert reached is not None and best <= reached <= best + loose, number  # the MIP rounds no time up
        assert best * (1 - 1e-6) - loose <= outcome.bound <= best * (1 + 1e-6), number
    assert matters >= 2


def test_the_checker_reads_the_page_as_this_test_does() -> None:
    random, refused, accepted = Random(9), 0, 0
    for number in range(of_all(90, few=30)):
        base = shared_instance(random, KINDS[number % 3], OBJECTIVES[number % 4])
        instance = shared(base, **SHARED) if number % 2 else base
        free = free_of(instance)
        for solution in candidates(free):
            if random.random() < 0.9 or not check(free, solution).feasible:
                continue
            certificate, found = check(instance, solution), judged(instance, solution)
            assert certificate.feasible == (found is not None), number
            if found is None:
                refused += 1
                continue
            accepted += 1
            assert (certificate.terms["T1"], certificate.terms["T2"]) == found, number
            assert certificate.objective == value(instance, *found), number
            problem = multi_problem(instance)
            assert terms(problem, placed(problem, solution)) == found, number
            windows = timeline(problem, solution)
            assert (sum(one.time for one in windows), sum(all_energies(problem, windows).values())) == found, number
    assert refused > 20 and accepted > 200


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_search_counts_what_is_shared(objective: str) -> None:
    made = random_instance(
        seed=3, layers=(9, 7, 5), rows=2, columns=3, task={"objective": objective, "windows": 3}, name="shared"
    )
    problem = multi_problem(shared(made, **BINDING))
    start = whole_models(problem)
    assert start is not None
    search = Annealing(problem, start, 1)
    before = search.best.value[0]
    for _ in search.run(20_000, Deadline()):
        pass
    windows = segments(search.best)
    again = state(problem, windows)
    assert (
        again.shared.tolist() == search.best.shared.tolist() and again.longest.tolist() == search.best.longest.tolist()
    )
    certificate = check(problem.instance, schedule(problem, windows))
    assert certificate.feasible and certificate.objective is not None
    tick = problem.edp_tick if objective == "edp" else 1
    assert search.best.value[0] < before or objective in ("energy", "weighted")  # mostly energy: whole models are best
    assert abs(certificate.objective - search.best.value[0] / tick) <= 2 + 1e-9 * certificate.objective


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bounds_lie_below_schedules_of_another_search(objective: str) -> None:
    made = random_instance(
        seed=5, layers=(8, 6), rows=2, columns=2, task={"objective": objective, "windows": 4}, name="shared"
    )
    instance = shared(made, **SHARED)
    found = solve(instance, "multimodel/search", SolveOptions.make(threads=1, deterministic=True))
    bounds = solve(instance, "multimodel/bounds", SolveOptions.make(threads=1, deterministic=True))
    assert found.objective is not None and max(one.value for one in bounds.bounds) <= found.objective


def test_what_is_not_shared_leaves_an_instance_as_it_was() -> None:
    instance = scenario(6, False, name="scar")
    nothing = shared(instance, shared_dram_bytes_per_ns=None, shared_link_bytes_per_ns=None, static_watts=0.0)
    assert nothing.content_hash == instance.content_hash
    hashes = {shared(instance, **{name: 0.5}).content_hash for name in SHARED}
    assert len(hashes - {instance.content_hash}) == 3
    assert multi_problem(instance).sharing is None


def test_a_model_alone_has_no_static_energy_of_others() -> None:
    """Single models refute a limit on energy only where it is below what all take together."""
    made = random_instance(seed=2, layers=(3, 3), task={"objective": "latency", "windows": 2}, name="limit")
    hot = shared(made, static_watts=50.0)
    best = solve(hot.replace(task=hot.task.replace(objective="energy")), "multimodel/auto").objective
    assert best is not None
    within = hot.replace(task=hot.task.replace(energy_limit_pj=best))
    assert solve(within, "multimodel/auto").status == "optimal"
    below = hot.replace(task=hot.task.replace(energy_limit_pj=best - 1))
    assert solve(below, "multimodel/auto").status == "infeasible"
    assert of_models(hot, (0,)).module.static_watts == 50.0


@pytest.mark.parametrize("field", sorted(SHARED))
def test_rates_and_watts_out_of_range_are_named(field: str) -> None:
    instance = scenario(6, False, name="scar")
    with pytest.raises(InputError, match=field):
        shared(instance, **{field: -1.0}).check()


def test_bytes_go_along_rows_first() -> None:
    """On a grid of 3 columns the middle chiplet reads from the left end of its own row."""
    instance = shared(scenario(6, False, name="scar"), shared_link_bytes_per_ns=1.0)
    sharing = multi_problem(instance).sharing
    assert sharing is not None
    at = {chiplet.name: c for c, chiplet in enumerate(instance.module.chiplets)}
    assert sharing.reads[at["c11"]] == (sharing.channel[at["c10"], at["c11"]], sharing.channels - 18 + 2 * at["c10"])
    assert sharing.writes[at["c02"]] == (sharing.channels - 18 + 2 * at["c02"] + 1,)
