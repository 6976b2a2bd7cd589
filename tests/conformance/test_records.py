"""Instances and solutions as files; the tiny instances themselves."""

from __future__ import annotations

from importlib import import_module

import pytest

from chipmap.family import Family, resolve
from tests.conformance.cases import FAMILIES, TinyCase, cases, hooks, identify, infeasible

every_case = pytest.mark.parametrize("case", [case for f in FAMILIES for case in cases(f)], ids=identify)


@pytest.mark.parametrize("family", FAMILIES, ids=identify)
def test_the_cases_say_something(family: Family) -> None:
    """Each constraint changes the optimum of some case, some have no solution, and some are of each objective.

    What no mapping of a model can break, as its domains imply it, need not be what leaves a case without a solution.
    Nor need what every instance can keep at a price: the family's tests name it ``ALWAYS_KEPT``.
    """
    optima = [case.best[0] for case in cases(family)]
    assert len(cases(family)) >= 10 and sum(value is not None for value in optima) >= 10
    modules = [import_module(form.build.partition(":")[0]) for form in family.formulations]
    implied = set.intersection(*(set(getattr(module, "BY_DOMAIN", ())) for module in modules))
    without = {label for labels, _ in infeasible(family) for label in labels}
    implied |= set(getattr(hooks(family), "ALWAYS_KEPT", ()))
    assert without | implied == set(family.constraints) - {family.oracle} | implied
    in_force = [case for case in cases(family) if hasattr(case.instance, "constraints")]
    binding = set()
    for case in in_force:
        for label in case.instance.constraints:
            rest = [other for other in case.instance.constraints if other != label]
            if TinyCase(family, "", case.instance.replace(constraints=rest)).best[0] != case.best[0]:
                binding.add(label)
    assert binding == {label for case in in_force for label in case.instance.constraints}


@every_case
def test_an_instance_and_its_best_solution_survive_a_file(case: TinyCase) -> None:
    case.instance.check()
    again = type(case.instance).from_json(case.instance.to_json(indent=1))
    assert again == case.instance and again.content_hash == case.instance.content_hash
    objective, solution = case.best
    if solution is not None:
        read = type(solution).from_json(solution.to_json())
        assert read == solution and read.content_hash == solution.content_hash
        certificate = resolve(case.family.check)(again, read)
        assert certificate.feasible and certificate.objective == objective
        assert certificate.instance_hash == case.instance.content_hash
        assert certificate.solution_hash == solution.content_hash
        assert set(certificate.terms) == set(case.family.terms) & case.family.labels_in_force(case.instance)
        assert type(certificate).from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("family", FAMILIES, ids=identify)
def test_instances_without_a_solution_have_none(family: Family) -> None:
    for labels, case in infeasible(family):
        assert case.best == (None, None)
        for label in set(labels) & set(getattr(case.instance, "constraints", ())):
            rest = [other for other in case.instance.constraints if other != label]
            assert TinyCase(family, "", case.instance.replace(constraints=rest)).best[0] is not None, (
                "the label matters"
            )
