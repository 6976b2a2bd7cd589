"""A result as one flat row in natural units: what ``--format json`` prints and every table shows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from chipmap.family import get_family
from chipmap.result import Result, best_bound


def natural(ticks: int | None, unit_per_tick: float) -> float | None:
    """``ticks · unit_per_tick`` as the nearest float to the exact decimal product (None stays None).

    >>> natural(110000, 1e-5), natural(None, 1e-5)
    (1.1, None)
    """
    return None if ticks is None else float(ticks * Decimal(repr(unit_per_tick)))


def row(result: Result) -> dict[str, Any]:
    """The result in the unit that ``unit`` names; ``gap`` is a share, None where a side is missing.

    ``terms`` are the objective's parts, ``feasible`` is the checker's word (False where there is no solution), and
    ``figures`` holds the sources of objective and bound, why the run stopped, and the certificate's own figures.
    """
    family = get_family(result.family)
    scale = family.unit_per_tick
    certificate = result.certificate
    terms = certificate.terms if certificate else {}
    return {
        "instance": result.instance,
        "family": result.family,
        "method": result.method,
        "status": result.status,
        "objective": natural(result.objective, scale),
        "unit": family.unit,
        "bound": natural(result.bound, scale),
        "gap": result.gap,
        "seconds": round(result.seconds, 3),
        "terms": {name: natural(ticks, scale) for name, ticks in terms.items()},
        "feasible": certificate is not None and certificate.feasible,
        "figures": _figures(result),
        "infeasibility": [reason.message for reason in result.infeasibility],
    }


def _figures(result: Result) -> dict[str, Any]:
    """Sources, termination and the certificate's figures; times of the final incumbent and bound from the trace."""
    bound = best_bound(result.bounds)
    figures: dict[str, Any] = {
        "incumbent_source": result.incumbent_source,
        "incumbent_seconds": _last(result, "solution"),
        "bound_source": bound.source if bound else "",
        "bound_seconds": _last(result, "bound"),
        "reason": result.termination.reason,
        "limit": result.termination.limit,
    }
    if "oracle" in result.provenance:
        figures["oracle"] = result.provenance["oracle"]
    if result.certificate:
        figures["grade"] = result.certificate.grade
        figures.update(result.certificate.figures)
    return figures


def _last(result: Result, event: str) -> float | None:
    """Seconds into the run at which the final incumbent, or the final bound, was found."""
    return max((line.seconds for line in result.trace if line.event == event), default=None)
