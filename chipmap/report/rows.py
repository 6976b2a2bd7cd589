"""A result as one flat row in natural units: what ``--format json`` prints and every table shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chipmap.certificate import Certificate
from chipmap.family import get_family
from chipmap.known.compare import compared, told
from chipmap.records import Unit, Units
from chipmap.records.quantities import number, percent, suited
from chipmap.report.progress import TARGETS, primal_integral, seconds_to
from chipmap.result import Result, best_bound, natural

#: Options that are named beside the time limit.
_TOLD = ("seed", "gap", "solver", "warm_start", "threads", "memory_limit")


def units_of(result: Result) -> Units:
    """The units of a result; those of its family if it is from an older archive."""
    return result.units or get_family(result.family).units_of(None)


def digits(ticks: int | None, unit: Unit) -> str:
    """So many ticks for people, without the unit: ``1.1``."""
    return number(natural(ticks, unit.per_tick))


def amount(ticks: int | None, unit: Unit) -> str:
    """So many ticks for people: ``1.1 us``."""
    unit = suited(ticks, unit)
    return f"{digits(ticks, unit)} {unit.name}"


def sign(unit: Unit) -> str:
    """The unit as people write it."""
    return {"us": "µs"}.get(unit.name, unit.name)


def in_units(ticks: Mapping[str, Any], units: Units) -> dict[str, Any]:
    """``ticks`` with its ``objective``, ``bound`` and ``terms``, where it has them, in natural units."""
    found = dict(ticks)
    for name in ("objective", "bound"):
        if name in found:
            found[name] = natural(found[name], units.objective.per_tick)
    if "terms" in found:
        found["terms"] = {name: natural(value, units.of(name).per_tick) for name, value in found["terms"].items()}
    return found


def term_units(terms: Mapping[str, Any], units: Units) -> dict[str, str]:
    """The name of the unit of each of ``terms``."""
    return {name: units.of(name).name for name in terms}


def predicted_row(certificate: Certificate | None, units: Units) -> dict[str, Any] | None:
    """What a profile predicts, its objective in natural units, with all of it as ``text``; None where none applies."""
    if certificate is None or certificate.prediction is None:
        return None
    shown = msgspec.structs.asdict(certificate.prediction)
    return {**in_units(shown, units), "text": certificate.outlook}


def row(result: Result) -> dict[str, Any]:
    """The result in the unit that ``unit`` names; ``gap`` is a share, None where a side is missing;
    ``measured`` the cost by the user's evaluator, in its unit.

    ``terms`` are the objective's parts in ``term_units``, ``feasible`` is the checker's word (False where there is no
    solution), and ``figures`` holds the sources of objective and bound, why the run stopped, and the certificate's own
    figures. ``prediction`` is what a profile of the machine says (None: none applies). ``best_known`` and
    ``best_known_bound`` are the registry's (:mod:`chipmap.known`), None where it has none;
    ``above_best_known`` is how much worse the objective is, as a share. ``registered``: whether it holds the instance.
    ``progress`` says how fast the run came near: seconds to gaps of 5%, 1% and 0.1%, and the primal integral.
    """
    units, certificate = units_of(result), result.certificate
    terms = certificate.terms if certificate else {}
    beside = compared(result)
    shown = {
        "instance": result.instance,
        "family": result.family,
        "method": result.method,
        "status": result.status,
        "objective": result.objective,
        "unit": units.objective.name,
        "bound": result.bound,
        "gap": result.gap,
        "seconds": round(result.seconds, 3),
        "terms": terms,
        "term_units": term_units(terms, units),
        "feasible": certificate is not None and certificate.feasible,
        "figures": _figures(result),
        "prediction": predicted_row(certificate, units),
        "failure": result.failure,
        "changes": list(result.changes),
        "registered": beside is not None,
        "best_known": beside.entry.value if beside else None,
        "best_known_bound": beside.entry.lower if beside else None,
        "above_best_known": beside.above if beside else None,
        "progress": _progress(result, beside.entry.objective if beside else None),
        "infeasibility": [reason.message for reason in result.infeasibility],
        "measured": result.evaluation.cost if result.evaluation else None,
    }
    return in_units(shown, units)


def above_known(registered: bool, share: float | None) -> str:
    """How far an objective lies above the registry's, in words."""
    return percent(share) if registered else "not in the registry"


def options_of(result: Result) -> str:
    """The options of a run that can make it differ from another one: ``60 s, seed 3, solver highs``."""
    chosen = result.provenance.get("options")
    given = {key: value for key, value in chosen.items() if value} if isinstance(chosen, dict) else {}
    limit = given.get("time_limit")
    words = [f"{limit:g} s"] if isinstance(limit, int | float) else []
    words += [f"{key.replace('_', ' ')} {given[key]}" for key in _TOLD if key in given and given[key] is not True]
    words += [key for key in ("deterministic",) if given.get(key) is True]
    return ", ".join(words)


def standing(result: Result) -> tuple[list[str], bool]:
    """What to say of a result beside what is known of its instance, and whether the two contradict each other."""
    beside = compared(result)
    if beside is None:
        return [], False
    share = percent(abs(beside.above or 0.0))
    entry, said = beside.entry, beside.entry.reported
    reported = amount(said.ticks, entry.unit) if said else ""
    return told(beside, amount(entry.objective, entry.unit), share, reported), beside.impossible


def _progress(result: Result, best: int | None) -> dict[str, float | None]:
    """Seconds until the gap was at most 5%, 1% and 0.1%; the primal integral against the best known objective, or the
    run's own where the registry has none."""
    own = result.objective if best is None else best if result.objective is None else min(best, result.objective)
    found = {f"seconds_to_{100 * share:g}%": seconds_to(result, share) for share in TARGETS}
    return {**found, "primal_integral_s": primal_integral(result, own)}


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
