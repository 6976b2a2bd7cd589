"""Every formulation, by every solver of its kind, against brute force."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.family import Family, Formulation, Model, Standing
from chipmap.result import integer_bound
from chipmap.solvers import infeasible_labels
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import candidates
from tests.conformance.cases import (
    FAMILIES,
    LIMIT_S,
    TinyCase,
    cases,
    formulations,
    identify,
    infeasible,
    other_choices,
    reader,
    solved,
)
from tests.lanes import LONG

every_model = pytest.mark.parametrize(
    ("case", "formulation", "solver"),
    [(case, form, solver) for family, form, solver in formulations() for case in cases(family)],
    ids=identify,
)
every_formulation = pytest.mark.parametrize(
    ("family", "formulation"),
    [(family, form) for family in FAMILIES for form in family.formulations],
    ids=identify,
)


@every_model
def test_a_model_says_what_brute_force_says(case: TinyCase, formulation: Formulation, solver: str) -> None:
    agrees(case, case.build(formulation), solver)


@pytest.mark.parametrize(
    ("formulation", "solver", "choices", "case"),
    [
        (form, solver, choices, case)
        for family, form, solver in formulations()
        for choices in other_choices(form)
        for case in cases(family)[::4]
    ],
    ids=identify,
)
def test_so_does_every_other_way_to_state_it(
    formulation: Formulation, solver: str, choices: dict[str, Any], case: TinyCase
) -> None:
    agrees(case, case.build(formulation, **choices), solver)


def agrees(case: TinyCase, model: Model, solver: str) -> None:
    """Exact: the same optimum, or infeasible. Relaxation: a bound. Restriction: a solution at its claimed value."""
    optimum, _ = case.best
    outcome = solved(model, solver)
    assert outcome.solver == solver
    assert outcome.termination.reason in ("optimal", "infeasible"), outcome.termination
    if outcome.termination.reason == "infeasible":
        assert outcome.value_of is None
        assert optimum is None or not model.standing.bounds
        return
    assert outcome.value_of is not None and outcome.objective is not None and outcome.bound is not None
    certificate = case.check(model.decode(outcome.value_of))
    if model.standing.bounds:
        assert optimum is None or integer_bound(outcome.bound) <= optimum
    if model.standing is not Standing.RELAXATION:
        assert certificate.feasible, certificate.violations
        assert optimum is not None and certificate.objective is not None and certificate.objective >= optimum
    if model.standing in (Standing.EXACT, Standing.RESTRICTION):
        assert outcome.objective == pytest.approx(certificate.objective, rel=1e-6, abs=1e-6), "imprecise"
    if model.standing is Standing.EXACT:
        assert certificate.objective == optimum
        assert outcome.bound == pytest.approx(optimum, rel=1e-6, abs=1e-6)


@every_formulation
def test_what_the_checker_accepts_the_model_accepts(family: Family, formulation: Formulation) -> None:
    """decode(encode(s)) is feasible and no worse, and a second pass changes nothing."""
    encoded, step = 0, 1 if LONG else 3
    for case in cases(family)[::step]:
        optimum, solution = case.best
        model = case.build(formulation)
        pairs = model.encode(solution) if solution is not None else None
        if pairs is None:
            assert solution is None or model.standing is not Standing.EXACT, f"{case}: an exact model holds everything"
            continue
        encoded += 1
        once = model.decode(reader(model, pairs))
        certificate = case.check(once)
        assert certificate.feasible and certificate.objective == optimum, str(case)
        again = model.encode(once)
        assert again is not None and model.decode(reader(model, again)) == once, str(case)
    assert encoded >= 9 // step


@pytest.mark.parametrize(
    ("case", "formulation", "solver"),
    [(case, form, solver) for family, form, solver in formulations() for case in cases(family)[::2]],
    ids=identify,
)
def test_a_warm_start_is_accepted(case: TinyCase, formulation: Formulation, solver: str) -> None:
    """The solver completes the start and reports it before anything else; a restriction may have to refuse it."""
    optimum, solution = case.best
    model = case.build(formulation)
    pairs = model.encode(solution) if solution is not None else None
    if not pairs or optimum is None:
        return
    heard: list[float] = []
    outcome = solved(model, solver, start=tuple(pairs), on_solution=lambda _, objective: heard.append(objective))
    if model.standing is Standing.RESTRICTION and not outcome.start_accepted:
        if outcome.value_of:
            found = case.check(model.decode(outcome.value_of)).objective
            assert found is not None and found >= optimum
        return
    assert outcome.start_accepted, outcome.log
    assert outcome.termination.reason == "optimal" and outcome.value_of is not None
    if model.standing is Standing.AUXILIARY:  # another objective
        return
    assert heard[0] == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert case.check(model.decode(outcome.value_of)).objective == optimum


@every_formulation
def test_a_start_that_breaks_the_model_is_refused_and_does_no_harm(family: Family, formulation: Formulation) -> None:
    """Solutions that the checker refuses: never accepted as a start by an exact model, and the optimum stands."""
    refused = 0
    for case in cases(family)[::6]:
        optimum, _ = case.best
        model = case.build(formulation)
        wrong = _worse(case)
        pairs = model.encode(wrong) if wrong is not None and optimum is not None else None
        if pairs is None or model.standing is not Standing.EXACT:
            continue
        refused += 1
        for solver in {solver for _, form, solver in formulations() if form is formulation}:
            outcome = solved(model, solver, start=tuple(pairs))
            assert outcome.start_accepted is False, f"{case}: {outcome.log}"
            assert outcome.value_of is not None
            assert case.check(model.decode(outcome.value_of)).objective == optimum
    assert refused or not any(case.build(formulation).standing is Standing.EXACT for case in cases(family)[:1])


def _worse(case: TinyCase) -> object | None:
    """The first candidate that the checker refuses although it is within its domains."""
    for solution in candidates(case.instance):
        violations = case.check(solution).violations
        if violations and all(violation.label != "C0" for violation in violations):
            return solution
    return None


@pytest.mark.parametrize(
    ("case", "formulation", "solver"),
    [(case, form, solver) for family, form, solver in formulations() for case in cases(family)[::8]],
    ids=identify,
)
def test_the_deterministic_mode_gives_the_same_twice(case: TinyCase, formulation: Formulation, solver: str) -> None:
    seen = []
    for _ in range(2):
        model = case.build(formulation)
        outcome = solved(model, solver, deterministic=True, time_limit=None, work_limit=1e6, seed=7)
        solution = model.decode(outcome.value_of) if outcome.value_of is not None else None
        seen.append((solution, outcome.objective, outcome.bound, outcome.termination))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("labels", "case", "formulation", "solver"),
    [(*pair, form, solver) for family, form, solver in formulations() for pair in infeasible(family)],
    ids=identify,
)
def test_an_infeasible_model_names_what_conflicts(
    labels: tuple[str, ...], case: TinyCase, formulation: Formulation, solver: str
) -> None:
    """Without one of the labels there would be solutions, so every infeasible set without cuts holds them all.

    C0 may be in the domains of variables. A redundant cut may stand for a label, but it is no reason: some way to state
    the model must name all labels without one.
    """
    model = case.build(formulation)
    outcome = solved(model, solver)
    if model.standing is Standing.EXACT:
        assert outcome.termination.reason == "infeasible" and outcome.value_of is None
    if outcome.termination.reason != "infeasible" or not model.standing.bounds:
        return
    sets: list[set[str]] = []
    for choices in ({}, *other_choices(formulation)):  # some formulations want to be asked for labels
        stated = case.build(formulation, **choices)
        if stated.standing.bounds:
            found = infeasible_labels(stated, SolveRequest(time_limit=LIMIT_S, threads=1), solver)
            sets.append({name.partition("_")[0].upper() for name in found})
            if sets[-1] and "CUT" not in sets[-1]:
                break
    assert sets and sets[-1] and set(labels) - {"C0"} <= sets[-1] and "CUT" not in sets[-1], sets


@every_formulation
def test_stating_a_model_looks_at_the_clock(
    family: Family, formulation: Formulation, caplog: pytest.LogCaptureFixture
) -> None:
    case = cases(family)[0]
    with Deadline.after(0.0).heeded(), pytest.raises(Stop):
        case.build(formulation)
    assert not caplog.records, "that time is up is no error"
    case.build(formulation)
