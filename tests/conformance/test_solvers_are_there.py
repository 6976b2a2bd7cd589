"""A requested solver that is missing fails: nothing is skipped, and nothing else is used in its place."""

from __future__ import annotations

import pytest

from chipmap.family import Family, Formulation
from chipmap.records import ChipmapError, SolverUnavailableError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.solvers import availability
from tests.conformance.cases import FAMILIES, SOLVERS, cases, formulations, identify, solved


@pytest.mark.parametrize("solver", [solver for names in SOLVERS.values() for solver in names])
def test_every_solver_of_the_suite_is_here(solver: str) -> None:
    availability.require(solver)


def test_the_suite_knows_every_solver() -> None:
    assert {kind: tuple(s for s, kinds in availability.KINDS.items() if kind in kinds) for kind in SOLVERS} == SOLVERS


@pytest.mark.parametrize(("family", "formulation", "solver"), formulations(), ids=identify)
def test_a_missing_solver_fails(
    family: Family, formulation: Formulation, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, here = availability.PACKAGES[solver], availability.package_version
    monkeypatch.setattr(availability, "package_version", lambda name: None if name == package else here(name))
    case = cases(family)[0]
    with pytest.raises(SolverUnavailableError, match=package) as caught:
        solved(case.build(formulation), solver)
    assert caught.value.exit_code == 5
    if any(method.name == formulation.name for method in family.methods):
        with pytest.raises(SolverUnavailableError, match=package):
            solve(case.instance, formulation.name, SolveOptions.make(solver=solver, warm_start="none", time_limit=60.0))


@pytest.mark.parametrize(
    ("family", "formulation"), [(f, form) for f in FAMILIES for form in f.formulations], ids=identify
)
def test_a_solver_of_another_kind_is_refused(family: Family, formulation: Formulation) -> None:
    model = cases(family)[0].build(formulation)
    for kind, names in SOLVERS.items():
        if kind != formulation.kind:
            with pytest.raises(ChipmapError, match=names[0]):
                solved(model, names[0])
