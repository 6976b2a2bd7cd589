"""``chipmap convert``: a published graph as an instance; instances and solutions from one format to another."""

from __future__ import annotations

import argparse

from chipmap.cli.common import add_set, say, write_file


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``chipmap convert`` to the command line."""
    parser = subparsers.add_parser(
        "convert",
        help="make an instance from a published graph format, or change the format of a file",
        description="Read a graph (traced operator graphs, PipeDream profiles, ONNX models and others, told apart by "
        "their content) and write an instance of the family, on its default package unless --set says otherwise. Or "
        "read an instance (with --solution, a solution of it) and write it in the format that FILE's ending names.",
    )
    parser.add_argument("graph", metavar="GRAPH", help="a graph or an instance, or - for standard input")
    parser.add_argument(
        "--family", metavar="NAME", help="the family of the instance that a graph becomes, such as ring"
    )
    parser.add_argument("--solution", metavar="SOLUTION", help="convert this solution of the instance GRAPH instead")
    add_set(parser, "change the instance: --set package.chips=36")
    parser.add_argument(
        "--dim",
        metavar="NAME=N",
        action="append",
        default=[],
        help="a dimension that an ONNX model or a PyTorch program leaves open (batch=1), or a tensor's shape (x=1x64)",
    )
    parser.add_argument("--out", metavar="FILE", required=True, help="the file to write (-: standard output)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, change, write; notes of the reader go to standard error."""
    from chipmap.family import family_of
    from chipmap.reading import encode, read, read_solution

    instance = read(args.graph, args.set, args.family, args.dim)
    solution = None if args.solution is None else read_solution(args.solution, family_of(instance), instance)
    write_file(args.out, encode(instance, args.out, solution))
    notes = getattr(instance, "notes", "")
    if notes:
        say(f"note: {notes}")
    return 0
