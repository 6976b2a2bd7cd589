"""``chipmap convert``: a published graph as an instance, explicit changes of its graph, and other file formats."""

from __future__ import annotations

import argparse
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from chipmap.cli.common import add_costs, add_cut, add_pin, add_set, cut, pin, read_instance, say, write_file
from chipmap.family import FAMILY_NAMES
from chipmap.records import InputError, Record, nearest

EXAMPLES = (
    "chipmap convert graph.json --family ring --set package.chips=36 --out mine.json",
    "chipmap convert encoder.onnx --family dataflow --dim batch=1",
    "chipmap convert wafer/ispd2020-Q --out q.kgraph",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Read a graph (with --family) or an instance, and write an instance. Graphs are traced operator graphs, PipeDream
    profiles, ONNX models and others, told apart by their content; they come on the family's default package, unless
    --set says otherwise. --clone, --relay, --split and --training change the graph, in the order given, and say what
    they add; --cut then says where the network may be cut, --pin what stays where. With --solution, a solution of the
    instance is written instead. FILE's ending names the format."""
    what = "a graph file, an instance, or - for standard input; several graphs for a family that takes them"
    parser.add_argument("graphs", metavar="SOURCE", nargs="+", help=what)
    what = f"the family of the instance that a graph becomes: {', '.join(FAMILY_NAMES)}"
    parser.add_argument("--family", metavar="NAME", help=what)
    parser.add_argument("--solution", metavar="SOLUTION", help="convert this solution of the instance SOURCE instead")
    add_set(parser, "change the instance: --set package.chips=36")
    what = "a dimension that an ONNX model or a PyTorch program leaves open (batch=1), or a tensor's shape (x=1x64); "
    what += "among several files encoder:batch=1 is that of encoder.onnx alone"
    parser.add_argument("--dim", metavar="NAME=N", action="append", default=[], help=what)
    what = "operators of a program whose FLOP aren't known: refuse them, count none, or one per element (default)"
    parser.add_argument("--unknown", choices=("error", "zero", "bytes"), help=what)
    what = "where a program's inputs decide between two branches (cond, If): read this one, or the one with more FLOP"
    parser.add_argument("--branch", choices=("true", "false", "heavier"), help=what)
    what = "the system of the instance, for families that take one: a file, or a name such as het-cross-6x6"
    parser.add_argument("--system", metavar="FILE|NAME", help=what)
    what = "measured times of operations (of all families: a table, a trace of torch.profiler, or learned:TABLE "
    what += "of other networks), or costs of layers "
    add_costs(parser, what + "(multimodel: a preset, or a table); repeat it for several")
    what = "bytes of each number, for families that take them (default: as in the graph)"
    parser.add_argument("--word-bytes", metavar="N", help=what)
    for name, metavar, what in (
        ("clone", "OPERATION", "give each reader of the operation a copy of it"),
        ("relay", "OPERATION[:N]", "send its tensors along N identity operations (default: one per chip)"),
        (
            "split",
            "OPERATION:N[:WAY]",
            "divide it into N by output features (WAY rows, default), tokens (columns), heads, or terms (inner)",
        ),
    ):
        # both fill one list, so that the order between them is kept
        pair = partial(lambda name, operation: (name, operation), name)
        asked: Any = {"dest": "changes", "action": "append", "default": [], "type": pair}
        parser.add_argument(f"--{name}", metavar=metavar, help=what, **asked)
    what = "make it a training step: gradients, and an update of each weight"
    asked = {"dest": "changes", "action": "append_const", "const": ("training", "")}
    parser.add_argument("--training", help=what, **asked)
    what = "with --training: none, sgd, momentum or adam (default), bytes of each of its numbers (default: those of a "
    what += "weight), and master to keep a copy of the weights in four bytes: adam:4:master"
    parser.add_argument("--optimizer", metavar="NAME[:BYTES][:master]", help=what)
    what = "with --training: a module, or a class of modules, whose inner results are computed again for its gradients "
    what += "and not kept (activation checkpointing); may be repeated"
    parser.add_argument("--recompute", metavar="NAME", action="append", help=what)
    add_cut(parser)
    add_pin(parser)
    parser.add_argument("--out", metavar="FILE", default="-", help="the file to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Read, change, write; what a graph comes to, notes of its reader and what changes add go to standard error."""
    from chipmap.family import family_of
    from chipmap.inputs.reading import Conversion, encode, read_graphs
    from chipmap.inputs.solutions import read_solution

    equipment = {
        name: given for name in ("system", "costs", "word_bytes") if (given := getattr(args, name)) is not None
    }
    conversion = Conversion(args.dim, args.unknown, say, equipment, args.branch)
    if len(args.graphs) > 1:
        instance = read_graphs(args.graphs, args.set, args.family, conversion)
    else:
        instance = read_instance(args.graphs[0], args.set, args.family, conversion)
    if args.solution is not None and (args.changes or args.cut or args.no_split or args.pin):
        what = "a solution of the unchanged graph"
        raise InputError(
            what, "--solution", "Leave out --clone, --relay, --split, --training, --cut, --no-split and --pin."
        )
    if args.optimizer is not None and ("training", "") not in args.changes:
        raise InputError("says what a training step holds", "--optimizer", "Ask for --training, or leave it out.")
    if args.recompute and ("training", "") not in args.changes:
        raise InputError("says what gradients read", "--recompute", "Ask for --training, or leave it out.")
    family = family_of(instance)
    solution = None if args.solution is None else read_solution(args.solution, family, instance, of_this=not args.set)
    notes = getattr(instance, "notes", "")
    if notes:
        say(f"note: {notes}")
    for name, group in groupby(args.changes, key=itemgetter(0)):
        wanted = [operation for _, operation in group]
        for operations in [wanted] if name == "clone" else [[operation] for operation in wanted]:
            instance = _changed(instance, name, operations, args)
    instance, pins = pin(cut(instance, args.cut, args.no_split), args.pin)
    say(*filter(None, [pins]))
    write_file(args.out, encode(instance, args.out, solution))
    return 0


def _changed(instance: Record, name: str, operations: list[str], args: argparse.Namespace) -> Record:
    """The instance with one change of its graph, which is reported."""
    from chipmap.family import family_of, resolve

    family = family_of(instance)
    if name not in family.transforms:
        raise InputError(f"instances of family {family.name!r} have no such change", f"--{name}", "Leave it out.")
    names = [] if name == "training" else operations
    said = {"optimizer": args.optimizer, "recompute": args.recompute} if name == "training" else {}
    fields: dict[str, Any] = {key: value for key, value in said.items() if value is not None}
    if name == "relay":
        names, fields = _stages(instance, operations[0])
    elif name == "split":
        names, fields = _parts(instance, operations[0])
    unknown = next((one for one in names if one not in _names(instance)), None)
    if unknown is not None:
        near = nearest(unknown, _names(instance))
        remedy = f"Did you mean {' or '.join(near)}?" if near else "Use a name from graph.operations."
        raise InputError(f"no operation is called {unknown!r}", f"--{name}", remedy)
    try:
        made = resolve(family.transforms[name])(instance, names, **fields)
    except InputError as error:
        own = {"optimizer": "--optimizer", "state_bytes": "--optimizer", "--recompute": "--recompute"}
        where = own.get(error.where, f"--{name}")
        raise InputError(error.what, where, error.remedy) from None
    words = ", ".join(f"{amount:,} {what}" for what, amount in made.report.items() if amount)
    say(f"{' '.join([name, ', '.join(operations)]).strip()}: adds {words or 'nothing'}")
    changed: Record = made.instance
    return changed


def _stages(instance: Record, text: str) -> tuple[list[str], dict[str, int]]:
    """``mask:4`` -> mask in 4 stages, unless an operation is called so."""
    name, colon, number = text.rpartition(":")
    if colon and _count(number) and text not in _names(instance):
        return [name], {"stages": int(number)}
    return [text], {}


def _parts(instance: Record, text: str) -> tuple[list[str], dict[str, Any]]:
    """``head:4`` or ``head:4:rows`` -> head in 4 parts, by rows; the name may have colons of its own."""
    name, _, last = text.rpartition(":")
    way: dict[str, str] = {}
    if not _count(last) and _count(name.rpartition(":")[2]):
        (name, _, last), way = name.rpartition(":"), {"way": last}
    if not name or not _count(last):
        what = "says no number of parts"
        raise InputError(what, f"--split {text}", f"Give it after a colon: --split {name or text}:2.")
    return [name], {"parts": int(last), **way}


def _count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _names(instance: Record) -> list[str]:
    return [operation.name for operation in instance.graph.operations]  # type: ignore[attr-defined]
