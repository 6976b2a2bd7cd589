"""What every checker ends with: what breaks a constraint as violations, and the certificate."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from chipmap.certificate import Certificate, Violation

#: Where a constraint is broken, by how much, in which unit, and all of it in words.
Finding = tuple[str, float, str, str]


def certify(instance: Any, solution: Any, broken: Mapping[str, Iterable[Finding]], **rest: Any) -> Certificate:
    """The certificate of ``solution`` for ``instance``: ``broken`` are findings by label, ``rest`` its other fields."""
    violations = tuple(
        Violation(label=label, where=where, amount=_float(amount), unit=unit, message=message)
        for label, findings in broken.items()
        for where, amount, unit, message in findings
    )
    return Certificate(
        instance_hash=instance.content_hash,
        solution_hash=solution.content_hash,
        feasible=not violations,
        violations=violations,
        **rest,
    )


def _float(amount: float) -> float:
    """An amount as a float, also of whole numbers that none reaches."""
    try:
        return float(amount)
    except OverflowError:
        return sys.float_info.max if amount > 0 else -sys.float_info.max
