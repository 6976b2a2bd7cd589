"""Brute force over all solutions of a tiny instance: the optimum by definition, for tests and for doubts.

Family ``f`` takes part with a module ``chipmap.validation.<f>_candidates`` that has ``count(instance)`` and
``candidates(instance)``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from chipmap.certificate import Certificate
from chipmap.records import InputError

#: More candidates than this are refused.
LIMIT = 2_000_000


def brute_force(instance: Any, check: Callable[[Any, Any], Certificate]) -> tuple[int | None, Any | None]:
    """(optimum, a solution that reaches it), or (None, None) if ``check`` accepts no candidate.

    Raises :class:`InputError` when there are more than :data:`LIMIT` candidates.
    """
    family = str(instance.schema).partition("/")[0]
    module = import_module(f"chipmap.validation.{family}.candidates")
    total = module.count(instance)
    if total > LIMIT:
        raise InputError(
            f"brute force would try {total} candidates", instance.name, f"It takes instances with up to {LIMIT}."
        )
    best: int | None = None
    best_solution = None
    for solution in module.candidates(instance):
        certificate = check(instance, solution)
        value = certificate.objective
        if certificate.feasible and value is not None and (best is None or value < best):
            best, best_solution = value, solution
    return best, best_solution
