"""Brute force over all solutions of a tiny instance: the optimum by definition, for tests and for doubts.

A family takes part with its ``candidates``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from chipmap.certificate import Certificate
from chipmap.family import family_of, resolve
from chipmap.records import InputError

#: More candidates than this are refused.
LIMIT = 2_000_000


def candidates(instance: Any) -> Iterator[Any]:
    """The solutions of ``instance`` that brute force tries."""
    found: Iterator[Any] = resolve(family_of(instance).candidates)(instance)
    return found


def count(instance: Any) -> int:
    """How many these are."""
    return int(resolve(f"{family_of(instance).candidates.partition(':')[0]}:count")(instance))


def brute_force(instance: Any, check: Callable[[Any, Any], Certificate]) -> tuple[int | None, Any | None]:
    """(optimum, a solution that reaches it), or (None, None) if ``check`` accepts no candidate.

    Raises :class:`InputError` when there are more than :data:`LIMIT` candidates.
    """
    total = count(instance)
    if total > LIMIT:
        raise InputError(
            f"brute force would try {total} candidates", instance.name, f"It takes instances with up to {LIMIT}."
        )
    best: int | None = None
    best_solution = None
    for solution in candidates(instance):
        certificate = check(instance, solution)
        value = certificate.objective
        if certificate.feasible and value is not None and (best is None or value < best):
            best, best_solution = value, solution
    return best, best_solution
