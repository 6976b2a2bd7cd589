"""``chipmap adopt``: a plan that somebody has, certified, and set against the bound and the best mapping."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from chipmap.cli.common import add_format, add_instance, add_pin, columns, pin, put, read_instance, remarks, say, titled
from chipmap.cli.parsing import seconds
from chipmap.records import Record

if TYPE_CHECKING:
    from chipmap.plans.adoption import Adoption

#: Seconds when ``--time-limit`` is silent.
TIME_LIMIT = 60.0

EXAMPLES = (
    "chipmap adopt step.json device_map.json --time-limit 2min",
    "chipmap adopt ring/bert-large-36 chips.csv --as csv --out runs/mine",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Judge PLAN, in a format that `chipmap emit` writes, as a mapping of INSTANCE: its certificate, its gap, and what
    the best mapping found gains. A plan that leaves something open is completed in the best way. Exits with 4 if the
    checker refuses it, with 2 if no mapping keeps to it."""
    add_instance(parser)
    add_pin(parser)
    parser.add_argument("plan", metavar="PLAN", help="a file, an archive of a run, or - for standard input")
    parser.add_argument("--as", metavar="FORMAT", dest="name", default="", help="its format (default: by its content)")
    parser.add_argument("--out", metavar="DIR", help="archive the plan as a run in DIR")
    what = f"seconds in all (or 2min, 1h; default {TIME_LIMIT:g})"
    parser.add_argument("--time-limit", metavar="S", type=seconds, default=TIME_LIMIT, help=what)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is found."""
    from chipmap.plans.adoption import adopt

    instance, pins = pin(read_instance(args.instance, args.set, args.family), args.pin)
    say(*filter(None, [pins]))
    found = adopt(instance, args.plan, args.name, args.time_limit, isolate=True)
    put(args.format, _shown(found, instance), lambda _: _text(found, instance, titled(found.best.instance, args.set)))
    for result in (found.completed, found.best):
        if result is not None and result.status in ("infeasible", "unknown"):
            say(*(f"{result.instance}: {line}" for line in remarks(result)))
    if args.out is not None:
        if found.result is None:
            say(f"{args.out} is not written: there is no valid mapping to archive")
        else:
            say(f"wrote {found.save(args.out)}")
    return found.exit_code


def _shown(found: Adoption, instance: Record) -> dict[str, Any]:
    """What is found as plain data, amounts in the instance's units."""
    from chipmap.cli.check import natural_certificate
    from chipmap.cli.explain import natural_explanation
    from chipmap.family import family_of
    from chipmap.report.rows import row

    units = family_of(instance).units_of(instance)
    return {
        "format": found.format,
        "certificate": None if found.certificate is None else natural_certificate(found.certificate, instance),
        "plan": None if found.result is None else row(found.result),
        "completed": None if found.completed is None else row(found.completed),
        "best": row(found.best),
        "gain": found.gain,
        "notes": list(found.notes),
        "account": None if found.account is None else natural_explanation(found.account, units),
    }


def _text(found: Adoption, instance: Record, title: str) -> str:
    from chipmap.cli.check import certificate_text, natural_certificate
    from chipmap.family import family_of
    from chipmap.records.quantities import percent
    from chipmap.report.explained import text as explained
    from chipmap.report.rows import amount

    units = family_of(instance).units_of(instance)
    unit = units.objective
    lines = "".join(f"{note}\n" for note in found.notes)
    if found.certificate is None:
        lines += f"{title}: no mapping keeps to the plan ({found.completed.status if found.completed else 'unknown'})\n"
    else:
        lines += certificate_text(natural_certificate(found.certificate, instance), title)
    facts: list[tuple[str, str, str]] = []
    plan, best = found.result, found.best
    if plan is not None:
        proved = f"gap {percent(plan.gap)} to the bound {amount(best.bound, unit)}"
        facts.append(("the plan", amount(plan.objective, unit), "no bound" if best.bound is None else proved))
    if plan is not None and found.completed is not None:
        how = "proved" if found.completed.status == "optimal" else "not proved"
        facts.append(("", "", f"the best found that keeps to what the plan says ({how} to be the best)"))
    if best.objective is not None:
        below = f"{percent(found.gain)} below the plan" if found.gain else "no less than the plan"
        said = best.status if found.gain is None else f"{best.status}, {below}"
        facts.append(("the best mapping", amount(best.objective, unit), said))
    lines += columns(facts)
    names = ("the plan", "the best mapping")
    return lines + (explained(found.account, units, "why", names) if found.account is not None else "")
