"""``chipmap generate``: an instance file from a named generator or a shipped instance."""

from __future__ import annotations

import argparse

from chipmap.cli.common import add_set, write_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Write the instance that generator NAME makes with the parameters of --set; or, for the name of a shipped
    instance, that instance with the changes of --set (dotted paths)."""
    parser.add_argument("name", metavar="NAME", help="a generator or a shipped instance (`chipmap info` lists them)")
    add_set(parser, "a parameter: --set sequence=128")
    parser.add_argument("--out", metavar="FILE", required=True, help="the file to write (-: standard output)")


def run(args: argparse.Namespace) -> int:
    """Make and write."""
    from chipmap.inputs.reading import encode, generate, generators, read, shipped_names
    from chipmap.inputs.settings import parse

    if args.name in shipped_names() and args.name not in generators():
        instance = read(args.name, args.set)
    else:
        instance = generate(args.name, **dict(parse(setting) for setting in args.set))
    write_file(args.out, encode(instance, args.out))
    return 0
