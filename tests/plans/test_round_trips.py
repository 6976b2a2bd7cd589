"""What is emitted is adopted again: the same mapping on tiny instances and on shipped ones, the same certificate."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.family import FAMILY_NAMES, family_of, get_family, resolve
from chipmap.plans.emission import unsuited
from chipmap.plans.plan import EmitOptions
from chipmap.plans.reading import read_plan, recognised
from tests.plans import round_trips
from tests.plans.samples import mappings, mappings_of, names

#: Formats that say where each operation is.
PLACES = ("device-map", "csv")


def emitted(instance: Any, solution: Any, name: str) -> tuple[str, bytes]:
    """The plan's file: its name and content."""
    form = family_of(instance).plan_format(name)
    made = resolve(form.emit)(instance, solution, EmitOptions())
    file, data = next(iter(made.items()))
    return file, data.encode() if isinstance(data, str) else data


CASES = [
    (form, name)
    for family in FAMILY_NAMES
    for form in (form.name for form in get_family(family).plan_formats if form.name in PLACES)
    for name in names(family)
]


@pytest.mark.parametrize(("form", "name"), CASES)
def test_a_plan_comes_back_with_the_same_certificate(form: str, name: str) -> None:
    """Where every operation has a place, the very mapping; with starts to be made, all the same places."""
    for instance, solution, certificate in mappings_of(name):
        assert unsuited(family_of(instance).plan_format(form), instance, solution) is None
        file, data = emitted(instance, solution, form)
        found = recognised(data, file, instance)
        assert found is not None and found.name == form
        _, plan = read_plan(data, file, instance)
        if getattr(solution, "start", None):
            assert plan.solution.devices == solution.devices and plan.pinned is not None
            assert {pin.operation: pin.device for pin in plan.pinned.pins} == solution.devices
            assert resolve(family_of(instance).check)(plan.pinned, solution).feasible
            continue
        assert plan.pinned is None
        again = resolve(family_of(instance).check)(instance, plan.solution)
        assert (again.feasible, again.objective, again.terms) == (True, certificate.objective, certificate.terms)


def test_enough_instances_take_part() -> None:
    for family, least in (("ring", 6), ("placement", 9), ("dataflow", 7), ("multimodel", 10)):
        assert len({instance.name for instance, _, _ in mappings(family)}) >= least


@pytest.mark.parametrize(("name", "least"), [("ring", 20), ("placement", 10), ("dataflow", 50), ("multimodel", 40)])
def test_the_best_mappings_known_come_back(name: str, least: int) -> None:
    """Of each shipped instance the registry's solution, in each format that is read and needs no model's file.

    ``python -m tests.plans.round_trips`` has the graphs of more operations as well.
    """
    family, met = get_family(name), 0
    for instance, solution in round_trips.known(family, round_trips.SMALL):
        for form in round_trips.formats(family):
            said = round_trips.came_back(family, form, instance, solution)
            assert said in ("same", "kept", "unsuited"), (instance.name, form.name, said)
            met += said != "unsuited"
    assert met >= least
