"""``chipmap bound``: lower bounds on the objective, without asking for a solution."""

from __future__ import annotations

import argparse
import time
from typing import Any

from chipmap.cli import common
from chipmap.cli.common import add_solve_options, columns, exit_code, read_instance, remarks, say, solve_options, titled
from chipmap.process.signals import Interrupts
from chipmap.result import Result

EXAMPLES = ("chipmap bound ring/bert-large-36 --time-limit 20s",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Print every lower bound that is proved for INSTANCE, tightest first. Without --method, the family's bounding
    method; with it, the bounds of that method."""
    common.add_instance(parser)
    common.add_pin(parser)
    add_solve_options(parser)
    common.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the bounds; 0 if there is one, 2 if the instance is proved infeasible, 3 if nothing is proved."""
    import msgspec

    from chipmap.inputs.settings import brief
    from chipmap.report.rows import row
    from chipmap.solve import bound

    started = time.monotonic()
    options = solve_options(args)
    with Interrupts() as interrupts:
        instance = read_instance(args.instance, args.set, args.family)
        result = bound(instance, args.method, options, isolate=True, started=started, pin=args.pin)
        result = msgspec.structs.replace(result, changes=brief(args.set))
        shown = {**row(result), "bounds": bounds(result)}
        common.put(args.format, shown, _text)
        say(*(f"{result.instance}: {line}" for line in remarks(result)))
        if interrupts.exit_code is not None:
            return interrupts.exit_code
        return 0 if result.bound is not None else exit_code(result) or 3


def bounds(result: Result) -> list[dict[str, Any]]:
    """The bounds in the result's unit, tightest first, the best of each source."""
    from chipmap.report.rows import in_units, units_of

    if result.status == "infeasible":
        return []
    best: dict[str, dict[str, Any]] = {}
    for one in sorted(result.bounds, key=lambda one: (-one.value, one.seconds)):
        shown = {"bound": one.value, "source": one.source, "kind": one.kind, "seconds": round(one.seconds, 3)}
        best.setdefault(one.source, in_units(shown, units_of(result)))
    return list(best.values())


def _text(shown: dict[str, Any]) -> str:
    from chipmap.records.quantities import percent, told

    if not shown["bounds"]:
        return f"{titled(shown['instance'], shown['changes'])}: no bound is proved ({shown['status']})\n"
    unit = shown["unit"]
    lines = [("bound", "proved by", "kind", "after")]
    for b in shown["bounds"]:
        lines.append((told(b["bound"], unit), b["source"], b["kind"], f"{b['seconds']:.2f} s"))
    text = f"{titled(shown['instance'], shown['changes'])}: {shown['method']}\n{columns(lines)}"
    if shown["objective"] is not None:
        text += f"  best solution on the way: {told(shown['objective'], unit)}, gap {percent(shown['gap'])}\n"
    return text
