"""``chipmap plot``: a solution as a picture."""

from __future__ import annotations

import argparse

from chipmap.cli.common import INSTANCE_HELP, add_set, read_instance, say

EXAMPLES = ("chipmap plot ring/bert-large-36 runs/bert --out runs/bert.png",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Draw SOLUTION of INSTANCE to FILE. The format is that of FILE's suffix: .png, .svg or .pdf. The bound and the gap
    of an archive or a result file stand in the title."""
    parser.add_argument("instance", metavar="INSTANCE", help=INSTANCE_HELP)
    parser.add_argument("solution", metavar="SOLUTION", help="a solution or result file, or an archive")
    parser.add_argument("--against", metavar="SOLUTION", help="a second solution, drawn beside the first")
    parser.add_argument("--out", metavar="FILE", required=True, help="the picture to write")
    add_set(parser)


def run(args: argparse.Namespace) -> int:
    """Draw and say where."""
    from chipmap.family import family_of
    from chipmap.inputs.solutions import bounds_of, read_solution
    from chipmap.result import best_bound

    instance = read_instance(args.instance, args.set)
    family = family_of(instance)
    solution = read_solution(args.solution, family, instance, of_this=not args.set)
    other = () if args.against is None else (read_solution(args.against, family, instance, of_this=not args.set),)
    proved = best_bound(bounds_of(args.solution, family, instance))
    family.draw(args.out, instance, solution, *other, bound=proved.value if proved else None)
    say(f"wrote {args.out}")
    return 0
