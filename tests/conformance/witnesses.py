"""Witnesses: for each constraint of a family a solution that breaks it and nothing else.

They are found, not written: solutions of the tiny instances and what one change makes of them (a number one more or
less, a list turned round or one shorter), so that a new family takes part unasked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

from chipmap.certificate import Certificate
from chipmap.family import get_family, resolve
from chipmap.oracle import load_oracle
from chipmap.records import InputError
from chipmap.validation.brute_force import candidates
from tests.conformance.cases import TinyCase, cases, infeasible

#: Of a case's candidates the first so many, by steps of so many, are looked at; a few of these are changed as well.
FIRST, STEP, CHANGED = 600, 10, 4


def changed(solution: Any) -> Iterator[Any]:
    """The solutions that one change of a value in the record's JSON makes, where the types allow it."""
    record = json.loads(solution.to_json())
    for holder, key in list(_places(record)):
        value = holder[key]
        for other in _others(value):
            holder[key] = other
            with suppress(InputError):
                yield type(solution).from_json(json.dumps(record).encode())
        holder[key] = value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _others(value: Any) -> list[Any]:
    if isinstance(value, list) and value:
        return [value[::-1], value[:-1]]
    return [value + 1, value - 1] if isinstance(value, int) and not isinstance(value, bool) else []


def rejecting(instance: Any, solution: Any) -> bool:
    """A function of the user's that accepts nothing."""
    return False


def checked(case: TinyCase, solution: Any, label: str = "") -> Certificate:
    """The checker's word; where ``label`` is that of the user's own function, with one that accepts nothing."""
    check: Callable[..., Certificate] = resolve(case.family.check)
    if label and label == case.family.oracle:
        return check(case.instance, solution, load_oracle(rejecting, case.family))
    return check(case.instance, solution)


@cache
def witnesses(name: str) -> dict[str, tuple[TinyCase, Any]]:
    """(case, solution) for each constraint of the family: it is the only one that is broken."""
    family = get_family(name)
    found: dict[str, tuple[TinyCase, Any]] = {}
    for case in [*cases(family), *(case for _, case in infeasible(family))]:
        for solution in _solutions(case):
            broken = {violation.label for violation in case.check(solution).violations}
            if not broken and family.oracle:
                broken = {family.oracle}
            if len(broken) == 1:
                found.setdefault(broken.pop(), (case, solution))
        if found.keys() == family.constraints.keys():
            break
    return found


def _solutions(case: TinyCase) -> Iterator[Any]:
    listed = list(islice(candidates(case.instance), 0, FIRST, STEP))
    yield from listed
    for solution in listed[:: max(1, len(listed) // CHANGED)]:
        yield from changed(solution)
