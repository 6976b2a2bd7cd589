"""What each label does: every function of the checker has the last word somewhere, and models claim no more than they
state. That names agree is :mod:`tests.docs.test_labels`."""

from __future__ import annotations

import ast
from importlib import import_module
from itertools import islice
from typing import Any

import pytest

from chipmap.family import Family, Formulation, Scope, Standing
from chipmap.validation.brute_force import candidates
from tests.conformance import two_objectives
from tests.conformance.cases import FAMILIES, cases, identify, other_choices
from tests.conformance.witnesses import checked, witnesses
from tests.docs.labels import (
    module_of,
    said_to_be_in_force,
    stated,
    states,
    tree_of,
    wrong_in_checker,
    wrong_in_model,
)
from tests.docs.pages import ROOT

FORMULATIONS = pytest.mark.parametrize(
    ("family", "formulation"), [(f, form) for f in FAMILIES for form in f.formulations], ids=identify
)


@pytest.mark.parametrize(("family", "label"), [(f, label) for f in FAMILIES for label in f.constraints], ids=identify)
def test_a_constraint_of_the_checker_that_finds_nothing_is_noticed(
    family: Family, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some solution of a tiny instance breaks this constraint alone, and without it nothing says so."""
    case, solution = witnesses(family.name)[label]
    assert {violation.label for violation in checked(case, solution, label).violations} == {label}
    monkeypatch.setattr(import_module(module_of(family.check)), family.label_name(label), lambda *_: iter(()))
    try:
        without = {violation.label for violation in checked(case, solution, label).violations}
    except Exception:
        assert label == "C0"  # the others may rely on it
    else:
        assert not without or label == "C0" not in without


@pytest.mark.parametrize(("family", "label"), [(f, label) for f in FAMILIES for label in f.terms], ids=identify)
def test_a_term_of_the_checker_that_is_another_is_noticed(
    family: Family, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some solution has a term above 0, and the certificate says what this function says."""
    pairs = ((case, solution) for case in cases(family) for solution in islice(candidates(case.instance), 0, 60, 6))
    case, solution = next(pair for pair in pairs if pair[0].check(pair[1]).terms.get(label))
    module, name = import_module(module_of(family.check)), family.label_name(label)
    before, function = case.check(solution), getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: function(*given) + 1)
    after = case.check(solution)
    assert after.terms == before.terms | {label: before.terms[label] + 1}


@pytest.mark.parametrize("family", FAMILIES, ids=identify)
def test_the_checker_speaks_of_the_labels_in_force(family: Family) -> None:
    """Of no other constraint, and of all their terms; the page says when those not always in force are."""
    page, elsewhere = (ROOT / "docs" / "families" / f"{family.name}.md").read_text(encoding="utf-8"), set[str]()
    for case in cases(family):
        in_force = family.labels_in_force(case.instance)
        assert in_force <= set(family.words)
        elsewhere |= set(family.words) - in_force
        for solution in islice(candidates(case.instance), 0, 60, 6):
            certificate = case.check(solution)
            assert {violation.label for violation in certificate.violations} <= in_force
            assert set(certificate.terms) == in_force & set(family.terms)
    assert elsewhere <= said_to_be_in_force(page)


@FORMULATIONS
def test_a_formulation_states_every_label_in_force(family: Family, formulation: Formulation) -> None:
    for case in cases(family):
        model: Any = case.build(formulation)
        assert not model.lacking, str(case)
        assert not model.standing.exact or model.scope is Scope.WHOLE


@FORMULATIONS
def test_a_model_without_a_label_in_force_is_not_exact(family: Family, formulation: Formulation) -> None:
    """A relaxation, if it is of the whole problem; else nothing that it says of bounds holds."""
    for case in cases(family)[::6]:
        model: Any = case.build(formulation)
        for label in model.statement.labels & family.labels_in_force(case.instance):
            model.statement.labels.remove(label)
            less = Standing.RELAXATION if model.scope is Scope.WHOLE else Standing.AUXILIARY
            assert (model.lacking, model.standing) == ({label}, less), str(case)
            model.statement.labels.add(label)


@FORMULATIONS
def test_rows_and_assumptions_have_the_names_of_labels(family: Family, formulation: Formulation) -> None:
    """An infeasible model names what clashes by these names."""
    for case in cases(family)[::6]:
        for choices in ({}, *other_choices(formulation)):
            for name in names_of(case.build(formulation, **choices)):
                known = any(states(family, label, name) for label in family.words)
                assert known or name.startswith(("def_", "sym_", "cut_")), name


def names_of(model: Any) -> set[str]:
    """The names of a Pyomo model's constraints, or of a CP-SAT model's assumptions."""
    if model.kind == "cpsat":
        return set(model.assumptions)
    import pyomo.environ as pyo

    return {component.local_name for component in model.native.component_objects(pyo.Constraint)}


def test_a_label_that_is_not_in_force_may_be_left_out() -> None:
    """A toy family of two objectives, with a model that says nothing of the energy."""
    family, trees = two_objectives.FAMILY, [ast.parse(two_objectives.MODEL)]
    fast, slow = two_objectives.Toy("time"), two_objectives.Toy("energy")
    assert list(wrong_in_checker(family, tree_of(module_of(family.check)))) == []
    assert list(wrong_in_model(family, trees)) == []
    assert family.labels_in_force(fast) == {"C0", "C1", "T1"} and family.labels_in_force(slow) == {"C0", "T2"}
    assert two_objectives.check(fast, (True, True)) == (["C1"], {"T1": 2})
    assert two_objectives.check(slow, (True, True)) == ([], {"T2": 9})
    known = stated(family, trees)
    assert family.labels_in_force(fast) <= known and family.labels_in_force(slow) - known == {"T2"}
    assert said_to_be_in_force(two_objectives.PAGE) == {"C1", "T1", "T2"}
    assert said_to_be_in_force("C2 to C4 are in force.\n\nC9 is not.") == {"C2", "C3", "C4"}
