"""``chipmap generate``: an instance file from a named generator or a shipped instance."""

from __future__ import annotations

import argparse

from chipmap.cli.common import add_set, read_instance, write_file
from chipmap.records import InputError, nearest

EXAMPLES = (
    "chipmap generate resnet50 --set chips=16 --out resnet.json",
    "chipmap generate chain --set operations=1e3 --set sram_bytes=64MiB",
    "chipmap generate ring/tiny-skip --set package.chips=4 --out mine.json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Write the instance that generator NAME makes with the parameters of --set; or, for the name of a shipped
    instance, that instance with the changes of --set (dotted paths)."""
    parser.add_argument("name", metavar="NAME", help="a generator or a shipped instance (`chipmap info` lists them)")
    add_set(parser, "a parameter: --set sequence=128")
    parser.add_argument("--out", metavar="FILE", default="-", help="the file to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Make and write."""
    from chipmap.inputs.parameters import parameters_of
    from chipmap.inputs.reading import encode, generate, generators, shipped_names

    known = generators()
    if args.name in shipped_names() and args.name not in known:
        instance = read_instance(args.name, args.set)
    elif args.name not in known:
        what = f"no generator and no shipped instance is called {args.name!r}"
        near = nearest(args.name, [*known, *shipped_names()])
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        remedy = f"{meant}Generators: {', '.join(known)}; `chipmap info` lists the shipped instances."
        raise InputError(what, "generate", remedy)
    else:
        instance = generate(args.name, **parameters_of(args.name, args.set))
    write_file(args.out, encode(instance, args.out))
    return 0
