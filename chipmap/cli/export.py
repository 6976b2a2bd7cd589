"""``chipmap export``: a formulation of an instance as a file that other solvers read."""

from __future__ import annotations

import argparse

from chipmap.cli.common import add_instance, add_pin, pin, read_instance, say

#: Standing of a model -> what its optimum is worth, where that isn't the instance's.
WORTH = {
    "relaxation": "its solutions may be invalid mappings; its optimum is a lower bound of the instance",
    "restriction": "it leaves out valid mappings, so its optimum is no bound of the instance",
    "auxiliary": "its objective is another one, so its optimum is no bound of the instance",
}

EXAMPLES = ("chipmap export ring/resnet18-12 --formulation ring/mip --to resnet18.mps",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Build a formulation of INSTANCE, uncontracted, and write it: .lp and .mps for MIP models, .pb and .pbtxt for
    CP-SAT models."""
    add_instance(parser)
    add_pin(parser)
    parser.add_argument("--formulation", metavar="NAME", required=True, help="`chipmap info` lists them")
    parser.add_argument("--to", metavar="FILE", required=True, help="the file to write; its suffix says how")


def run(args: argparse.Namespace) -> int:
    """Build and write."""
    from chipmap.family import family_of, resolve
    from chipmap.solvers.export import export

    instance, pins = pin(read_instance(args.instance, args.set, args.family), args.pin)
    say(*filter(None, [pins]))
    formulation = family_of(instance).formulation(args.formulation)
    model = resolve(formulation.build)(instance, formulation.choices)
    export(model, args.to)
    standing = model.standing.value
    worth = f": {WORTH[standing]}" if standing in WORTH else ""
    say(f"wrote {args.to} ({formulation.name}, standing: {standing}{worth})")
    if stated_for := getattr(model, "stated_for", ""):
        say(f"  it is stated for {stated_for}")
    return 0
