"""Auxiliary models: what the record says of them holds of models that are built, for every tiny instance that they are
for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from chipmap.family import AuxiliaryModel, Family, Scope, get_family, resolve
from chipmap.formulations.placement.cpsat_window import ScheduleWindow
from chipmap.formulations.wafer.options import Limits, options
from chipmap.instances.dataflow.offers import NONE, Offer
from chipmap.instances.placement.fixed_order import Schedule
from chipmap.instances.placement.load_dominance import joined_by_dominance
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.wafer.instance import special
from chipmap.instances.wafer.problem import evaluate, in_order, wafer_problem
from tests.conformance.cases import FAMILIES, TinyCase, cases, identify
from tests.conformance.test_models import agrees

MODELS = [(family, model) for family in FAMILIES for model in family.auxiliary_models]
every_model = pytest.mark.parametrize(("family", "model"), MODELS, ids=identify)


def loads() -> Iterator[TinyCase]:
    """The cases of objective throughput."""
    return (case for case in cases(get_family("placement")) if not placement_problem(case.instance).timed)


def boundaries() -> Iterator[tuple[TinyCase, tuple[Any, ...]]]:
    """Each kind of device of each case, which holds at least one unit with work."""
    for case in loads():
        graph = joined_by_dominance(placement_problem(case.instance))
        for kind in range(len(graph.kinds)):
            yield case, (graph, kind, 10**6, graph.time.min(axis=1), 1)


def windows() -> Iterator[tuple[TinyCase, tuple[Any, ...]]]:
    """The best schedules of the cases of objective step time; the whole of each is placed anew."""
    for case in cases(get_family("placement")):
        problem, (optimum, best) = placement_problem(case.instance), case.best
        if problem.timed and optimum is not None and best is not None:
            yield case, (ScheduleWindow(Schedule.of(problem, best), np.arange(problem.operations)), optimum)


def floorplans() -> Iterator[tuple[TinyCase, tuple[Any, ...]]]:
    """The best floorplans of some cases; all kernels are free."""
    for case in cases(get_family("wafer"))[::3]:
        problem, (optimum, best) = wafer_problem(case.instance), case.best
        if optimum is not None and best is not None:
            placements = in_order(problem, best)
            tau = evaluate(problem, placements).time
            listed = options(problem, Limits(tau=tau))
            menu = {v: list(listed[int(problem.types[v])]) for v in range(problem.n)}
            yield case, (problem, placements, menu, tau)


def alone() -> Iterator[tuple[TinyCase, tuple[Any, ...]]]:
    """The kernels of the cases of formulas alone, without edges, at their longest times."""
    for case in cases(get_family("wafer")):
        if not special(case.instance):
            some = case.instance.replace(edges=())
            yield case, (some, wafer_problem(some).longest, 10)


def offers() -> Iterator[tuple[TinyCase, tuple[Any, ...]]]:
    """Stages of a few layers on two groups of unequal chips, under the names of some cases."""
    for layers, case in enumerate(cases(get_family("dataflow"))[:3], 1):
        ticks = np.outer((100, 200), np.arange(layers + 1))
        ticks[:, 0] = NONE
        yield case, (case.instance, Offer(ticks[None], np.full((2, 2), 50), (0, 1), (1, 1), (1, 1), (), 4, 0))


#: The arguments of each auxiliary model, and the tiny instances that it is for.
SAMPLES: dict[str, Callable[[], Iterator[tuple[TinyCase, tuple[Any, ...]]]]] = {
    "ring/sram": lambda: ((case, (case.instance,)) for case in cases(get_family("ring"))),
    "wafer/window": floorplans,
    "wafer/same-order": floorplans,
    "wafer/large": alone,
    "placement/units": lambda: ((case, (case.instance,)) for case in loads()),
    "placement/window": windows,
    "placement/boundary": boundaries,
    "dataflow/unequal-mip": offers,
    "dataflow/unequal-cpsat": offers,
}


def test_every_auxiliary_model_has_samples() -> None:
    assert set(SAMPLES) == {model.name for _, model in MODELS}


@every_model
def test_it_leaves_out_what_the_record_says(family: Family, model: AuxiliaryModel) -> None:
    left_out, count = set[str](), 0
    for case, given in SAMPLES[model.name]():
        built: Any = resolve(model.build)(*given)
        assert (built.kind, built.scope) == (model.kind, model.scope)
        assert built.lacking == set(model.lacks) & family.labels_in_force(built.instance), str(case)
        left_out, count = left_out | built.lacking, count + 1
    assert left_out == set(model.lacks) and count >= 3


@every_model
def test_one_of_the_whole_problem_says_what_brute_force_says(family: Family, model: AuxiliaryModel) -> None:
    for case, given in SAMPLES[model.name]():
        built: Any = resolve(model.build)(*given)
        assert built.standing.bounds == (model.scope is Scope.WHOLE)
        if built.standing.bounds:
            agrees(case, built, model.kind)
