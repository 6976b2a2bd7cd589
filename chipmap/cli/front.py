"""``chipmap front``: the front of an instance's terms, as a table or a picture."""

from __future__ import annotations

import argparse
from functools import partial

from chipmap.cli.common import add_format, add_instance, add_pin, pin, put, read_instance, say, titled
from chipmap.cli.parsing import Once, seconds, whole
from chipmap.deadline import Deadline
from chipmap.family import family_of
from chipmap.process.signals import Interrupts
from chipmap.records import Record

#: Seconds when ``--time-limit`` is silent, and solves for several weights where ``--solves`` is.
TIME_LIMIT, SOLVES = 60.0, 9

EXAMPLES = (
    "chipmap front wafer/tiny-adapters",
    "chipmap front wafer/ispd2020-K --time-limit 5min --out front.svg",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Print solutions of INSTANCE of which none is as good as another in all terms of the objective and better in one.
    For family wafer: time, wire and adapters. On small fabrics the front is exact. On larger ones the instance is
    solved for several weights, each solve from the best floorplan so far, and each point has a gap."""
    add_instance(parser)
    add_pin(parser)
    what = f"seconds in all (or 2min, 1h; default {TIME_LIMIT:g})"
    parser.add_argument("--time-limit", metavar="S", type=seconds, default=TIME_LIMIT, help=what)
    what = f"solves for several weights, where the front isn't found exactly (default {SOLVES})"
    parser.add_argument("--solves", metavar="N", type=whole, default=SOLVES, help=what)
    parser.add_argument("--out", metavar="FILE", action=Once, help="also draw the front: .png, .svg or .pdf")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the points; 0, 2 if the instance is infeasible, 3 if nothing was found, or the interrupt's code."""
    from chipmap.cli.progress import compile_first
    from chipmap.deadline import Unready
    from chipmap.process.warming import is_warm
    from chipmap.report.canvas import check_suffix

    if args.out:
        check_suffix(args.out)
    instance, pins = pin(read_instance(args.instance, args.set, args.family), args.pin)
    say(*filter(None, [pins]))
    family = family_of(instance)
    if family.front and family.is_small(instance) and not is_warm(family):
        try:
            return _found(args, instance, ready=False)
        except Unready:  # it takes long as plain Python
            pass
    if family.front:
        compile_first(family, quiet=args.quiet)
    return _found(args, instance, ready=True)


def _found(args: argparse.Namespace, instance: Record, ready: bool) -> int:
    """Find the points and print them."""
    from chipmap.explaining.front import front
    from chipmap.report.front import draw, text
    from chipmap.run import SolveOptions

    told = (lambda _: None) if args.quiet else (lambda words: say(f"  {words}"))
    with Interrupts() as interrupts:
        outer = Deadline(ended=lambda: "interrupted" if interrupts.signal is not None else None)
        found = front(instance, SolveOptions(time_limit=args.time_limit), args.solves, told, outer, ready)
        if interrupts.signal is not None:
            say("chipmap: interrupted: what was found so far follows")
        title = titled(getattr(instance, "name", ""), args.set)
        put(args.format, found.natural(), partial(lambda one, _: text(one, title), found))
        if args.out and found.points:
            draw(found, args.out, title)
            say(f"wrote {args.out}")
        return interrupts.exit_code or (0 if found.points else 2 if found.complete else 3)
