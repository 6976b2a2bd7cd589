"""Every method of every family: its solutions, its bounds and its word."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from chipmap.family import Family, Method, Standing
from chipmap.records import InputError, SolverUnavailableError
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from tests import lanes
from tests.conformance.cases import FAMILIES, LIMIT_S, SOLVERS, TinyCase, cases, identify, infeasible
from tests.lanes import of_all


def solvers_of(family: Family, method: Method) -> tuple[str | None, ...]:
    """The solvers that a method can be asked to use: those of the formulation of its name, else its own choice."""
    kinds = [formulation.kind for formulation in family.formulations if formulation.name == method.name]
    return SOLVERS[kinds[0]] if kinds else (None,)


#: Methods whose usual work is too much for all tiny instances -> a part of it.
LITTLE: dict[str, dict[str, Any]] = {
    **{name: {"native": {"samples": 20}} for name in ("ring/policy", "placement/policy")},
    **{name: {"native": {"samples": 400}} for name in ("ring/random", "ring/annealing")},
}


def run(case: TinyCase, method: Method, **options: Any) -> Result:
    """The result of ``method`` on one thread, without a warm start that could hide what it does itself."""
    defaults = {"time_limit": LIMIT_S, "threads": 1, "warm_start": "none", **LITTLE.get(method.name, {})}
    return solve(case.instance, method.name, SolveOptions.make(**(defaults | options)))


#: Methods that make as many tries on a tiny instance as on any other.
LONG = ("wafer/search", "placement/metis", "multimodel/scar-evolutionary")
#: How many cases a method is asked at least, as far as there are more, and the best chain. The long lane asks the chain
#: all of them, and so it asks every model (:mod:`tests.conformance.test_models`).
ENOUGH, OF_THE_BEST = of_all(12, few=4), of_all(10**6, few=12)
#: Of how many cases a method is asked one, where it is asked twice or without time.
SELDOM = 12 if lanes.LONG else 24


def part(family: Family, method: Method) -> int:
    """Of how many cases a method is asked one: each case by some method, each method in all parts of the list."""
    enough = OF_THE_BEST if method is family.method(None) else ENOUGH
    return max(2 if method.name in LONG else 1, len(cases(family)) // enough)


def applicable(family: Family, method: Method, solver: str | None, step: int = 1) -> list[TinyCase]:
    """The first case of every ``step`` cases that the method takes: one that it doesn't, it refuses as bad input.

    Methods begin at different ones, so that all cases have their turn.
    """
    begin = [one.name for one in family.methods].index(method.name) % step
    every = cases(family)[begin:] + cases(family)[:begin]
    chunks = (every[at : at + step] for at in range(0, len(every), step))
    taken = [next((case for case in chunk if first_result(case, method.name, solver)), None) for chunk in chunks]
    found = [case for case in taken if case]
    assert len(found) >= (ENOUGH - 2 if step <= part(family, method) else 1)
    return found


@cache
def first_result(case: TinyCase, method_name: str, solver: str | None) -> Result | None:
    """What the method says of the case when it is first asked; None if it refuses it as bad input, with a remedy."""
    method = case.family.method(method_name)
    try:
        return run(case, method, solver=solver)
    except InputError as error:
        assert error.remedy and method.name != case.family.default_method
        return None
    except SolverUnavailableError as error:
        if "chipmap[" in str(error):  # the suite's own solvers must be there; this one is an extra
            pytest.skip(str(error))
        raise


every_method = pytest.mark.parametrize(
    ("family", "method", "solver"),
    [(f, method, solver) for f in FAMILIES for method in f.methods for solver in solvers_of(f, method)],
    ids=identify,
)


@every_method
def test_solutions_bounds_and_status_are_true(family: Family, method: Method, solver: str | None) -> None:
    """Solutions are valid at the checker's objective, every bound is at most the optimum, and no word is too much.

    A method that solves an exact model decides every tiny instance, and so does the best chain.
    """
    formulation = next((form for form in family.formulations if form.name == method.name), None)
    best = method is family.method(None)
    for case in applicable(family, method, solver, part(family, method)):
        optimum, _ = case.best
        result = first_result(case, method.name, solver)
        assert result is not None
        assert result.status != "error", f"{case}: {result.termination}"
        if result.solution is not None:
            assert case.best[1] is not None
            solution = type(case.best[1]).make(**result.solution)
            certificate = case.check(solution)
            assert certificate.feasible and certificate.objective == result.objective, str(case)
            assert certificate == result.certificate
            assert optimum is not None and result.objective is not None and result.objective >= optimum
        assert all(bound.value <= optimum for bound in result.bounds if optimum is not None), f"{case}: {result.bounds}"
        if result.status == "optimal":
            assert result.objective == optimum == result.bound and result.gap == 0.0
        if result.status == "infeasible":
            assert optimum is None
        if result.gap is not None:
            assert result.gap >= 0.0
        if best or (formulation is not None and case.build(formulation).standing is Standing.EXACT):
            assert result.status in ("optimal", "infeasible"), f"{case}: {result.termination} {result.notes}"


@every_method
def test_a_restriction_emits_no_bounds_and_no_infeasibility(
    family: Family, method: Method, solver: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the model of a method is a restriction, its solver's bounds and proofs don't reach the result.

    What the family knows of an instance at once, before any method, is left out. A method that solves one such model
    for each choice that there is (of degrees, say) may prove infeasibility by all of them: where the best chain does.
    """
    formulation = next((form for form in family.formulations if form.name == method.name), None)
    if formulation is None:
        return
    asked = [*applicable(family, method, solver, 4 if lanes.LONG else 12), *(case for _, case in infeasible(family))]
    monkeypatch.setattr("chipmap.process.conduct.at_once", lambda *_: None)
    for case in asked:
        if case.build(formulation).standing in (Standing.RESTRICTION, Standing.AUXILIARY):
            result = run(case, method, solver=solver)
            assert all(bound.kind != "solver" for bound in result.bounds), f"{case}: {result.bounds}"
            if result.status == "infeasible":
                assert run(case, family.method(None)).status == "infeasible", str(case)


@pytest.mark.parametrize(
    ("family", "labels", "case"), [(f, *pair) for f in FAMILIES for pair in infeasible(f)], ids=identify
)
def test_infeasibility_is_proved_and_names_its_label(family: Family, labels: tuple[str, ...], case: TinyCase) -> None:
    result = run(case, family.method(None))
    assert result.status == "infeasible" and result.solution is None and result.gap is None
    assert result.infeasibility, "a proof comes with its reason"
    named = {reason.label for reason in result.infeasibility}
    assert named <= set(labels), [reason.message for reason in result.infeasibility]
    assert all(reason.message and reason.remedies for reason in result.infeasibility)


@every_method
def test_the_same_twice_in_deterministic_mode(family: Family, method: Method, solver: str | None) -> None:
    """Within so much time that no share of it is used up, however busy the machine is."""
    options: dict[str, Any] = {"solver": solver, "deterministic": True, "seed": 3, "time_limit": 100 * LIMIT_S}
    for case in applicable(family, method, solver, SELDOM):
        one, other = (run(case, method, **options) for _ in range(2))
        assert (one.solution, one.objective, one.status) == (other.solution, other.objective, other.status), str(case)
        assert [(b.value, b.source) for b in one.bounds] == [(b.value, b.source) for b in other.bounds], str(case)
        assert not any("not reproducible" in note.text for note in one.notes)


@every_method
def test_a_passed_deadline_ends_a_run_and_keeps_what_was_found(
    family: Family, method: Method, solver: str | None
) -> None:
    """With the time used up before it starts, no method claims anything that it can't have proved."""
    for case in applicable(family, method, solver, SELDOM):
        options = SolveOptions.make(time_limit=5.0, threads=1, solver=solver)
        result = solve(case.instance, method.name, options, started=time.monotonic() - 6.0)
        optimum, _ = case.best
        assert result.termination.limit == "time" or result.status in ("optimal", "infeasible")
        assert result.status != "error" and (result.status != "infeasible" or optimum is None)
        assert result.objective is None or (optimum is not None and result.objective >= optimum)
        assert all(bound.value <= optimum for bound in result.bounds if optimum is not None)
