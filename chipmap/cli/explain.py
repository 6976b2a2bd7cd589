"""``chipmap explain``: why an instance is infeasible or what holds its objective up, and which changes would help."""

from __future__ import annotations

import argparse
from typing import Any

from chipmap.cli.common import add_format, add_instance, add_pin, pin, put, read_instance, say, titled
from chipmap.cli.parsing import seconds
from chipmap.explanation import Explanation, Step
from chipmap.family import family_of
from chipmap.process.signals import Interrupts
from chipmap.records import Units

#: Seconds when ``--time-limit`` is silent.
TIME_LIMIT = 60.0


EXAMPLES = (
    "chipmap explain ring/tiny-infeasible",
    "chipmap explain ring/bert-large-36 runs/bert --time-limit 2min",
    "chipmap explain dataflow/table6-free-8x1 --time-limit 2min",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Explain INSTANCE: what is short, or what holds its objective up and why chips stay unused. Every change that is
    suggested has been made, solved and checked. With SOLUTION, how far that is from the best known; with --against,
    what differs between two solutions."""
    add_instance(parser)
    add_pin(parser)
    parser.add_argument("solution", metavar="SOLUTION", nargs="?", help="a solution or result file, an archive, or -")
    parser.add_argument("--against", metavar="SOLUTION2", help="another solution, to compare SOLUTION with")
    what = f"seconds in all (or 2min, 1h; default {TIME_LIMIT:g})"
    parser.add_argument("--time-limit", metavar="S", type=seconds, default=TIME_LIMIT, help=what)
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 0, 2 if the instance is infeasible, 3 if nothing is known, 4 if SOLUTION is refused."""
    from chipmap.cli.progress import compile_first
    from chipmap.explain import explain, strangers
    from chipmap.inputs.solutions import bounds_of, read_solution
    from chipmap.run import SolveOptions

    instance, pins = pin(read_instance(args.instance, args.set, args.family), args.pin)
    say(*filter(None, [pins]))
    family = family_of(instance)
    named = (args.solution, args.against)
    one, other = (None if name is None else read_solution(name, family, instance) for name in named)
    options, progress = SolveOptions(time_limit=args.time_limit), None if args.quiet else _show
    if not family.is_small(instance):
        compile_first(family, quiet=args.quiet)
    runs = [name for name in named if name is not None]
    known = [bound for name in runs for bound in bounds_of(name, family, instance)]
    notes = strangers(runs, instance)
    with Interrupts() as interrupts:
        found = explain(instance, one, other, options, progress, isolate=True, bounds=known, notes=notes)
        units = family.units_of(instance)
        from chipmap.report.explained import text

        title = titled(found.instance, args.set)
        put(args.format, natural_explanation(found, units), lambda _: text(found, units, title))
    if interrupts.exit_code is not None:
        return interrupts.exit_code
    if found.given is not None and not found.given.feasible:
        return 4
    return {"infeasible": 2, "unknown": 3}.get(found.status, 0)


def _show(step: Step) -> None:
    words = "solving the instance as it is" if step.kind == "instance" else step.what
    say(f"  {words}{', once more' if step.again else ''}")


def natural_explanation(found: Explanation, units: Units) -> dict[str, Any]:
    """The explanation as plain data, with objectives, bounds and terms in their units."""
    import msgspec

    from chipmap.report.rows import in_units, term_units

    shown = in_units(msgspec.to_builtins(found), units)
    shown |= {"unit": units.objective.name, "term_units": term_units(found.terms, units)}
    shown["changes"] = [in_units(change, units) for change in shown["changes"]]
    if found.given is not None:
        shown["given"] = in_units(shown["given"], units)
    if found.difference is not None:
        both = {which: in_units(shown["difference"][which], units) for which in ("before", "after")}
        shown["difference"] |= both
    return shown
