"""What several commands share: options of a solve, output in the asked format, exit codes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from chipmap.cli.parsing import Once, gibibytes, seconds, share, whole
from chipmap.options import cores
from chipmap.records import InputError, choices, counted
from chipmap.result import Result
from chipmap.run import SolveOptions

INSTANCE_HELP = "a file, an archive, the name of a shipped instance (ring/bert-large-36), or - for standard input"

#: What ``--set`` does to an instance.
SET_HELP = "change the instance first: --set package.chips=36; an object is merged, after := it replaces"


def add_set(parser: argparse.ArgumentParser, what: str = SET_HELP) -> None:
    """Add ``--set``."""
    parser.add_argument("--set", metavar="PATH=VALUE", action="append", default=[], help=what)


def add_instance(parser: argparse.ArgumentParser, name: str = "instance", **options: Any) -> None:
    """Add INSTANCE, ``--set``, and ``--family``, which lets an instance be a published graph."""
    parser.add_argument(name, metavar="INSTANCE", help=INSTANCE_HELP, **options)
    add_set(parser)
    add_family(parser)


def add_cut(parser: argparse.ArgumentParser, **options: Any) -> None:
    """Add ``--cut``."""
    what = "where the network may be cut: anywhere, or so that each module or each block (layers.3) stays whole"
    parser.add_argument("--cut", choices=("any", "modules", "blocks"), help=what, **options)
    what = "modules that stay whole, by class or path: Block, layers.*, layers.3.attention (may be repeated)"
    parser.add_argument("--no-split", metavar="NAME", action="append", help=what)


def add_pin(parser: argparse.ArgumentParser) -> None:
    """Add ``--pin``."""
    what = "keep to what FILE says: a table (name,place), JSON with pins, forbidden, together and apart, or a plan"
    parser.add_argument("--pin", metavar="FILE", action="append", help=what)


def add_costs(parser: argparse.ArgumentParser, what: str) -> None:
    """Option --costs, several times."""
    parser.add_argument("--costs", metavar="FILE|NAME", action="append", help=what)


def add_family(parser: argparse.ArgumentParser) -> None:
    """Add ``--family``."""
    parser.add_argument("--family", metavar="NAME", help="take INSTANCE as a published graph, for this family")


def add_format(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add ``--format``: a table, JSON, or ``more``."""
    parser.add_argument("--format", choices=("table", "json", *more), default="table", help="of standard output")


def put(style: str, shown: Any, text: Callable[[Any], str]) -> None:
    """Write ``shown`` to standard output: as one line of JSON, or as ``text`` makes it."""
    sys.stdout.write(json.dumps(shown, allow_nan=False) + "\n" if style == "json" else text(shown))


def add_oracle(parser: argparse.ArgumentParser) -> None:
    """Add ``--oracle``."""
    what = "a constraint of your own: a function (instance, solution) -> bool or Verdict, for families that take one"
    parser.add_argument("--oracle", metavar="MODULE:FUNCTION", help=what)


def add_solve_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`solve_options` reads."""
    what = "how to solve (`chipmap info` lists the methods)"
    parser.add_argument("--method", metavar="NAME", action=Once, help=what)
    parser.add_argument("--solver", metavar="NAME", help="highs, gurobi or cpsat, for methods that use a solver")
    parser.add_argument(
        "--time-limit", metavar="S", type=seconds, help="seconds in all, reading included (or 2min, 1h)"
    )
    parser.add_argument(
        "--gap", metavar="G", type=share, default=0.0, help="stop at this relative gap (0.01, 1%%; default 0)"
    )
    parser.add_argument("--threads", metavar="N", type=whole, help="threads of a solver")
    what = "seed of all that is random (default 0)"
    parser.add_argument("--seed", metavar="N", type=whole, default=0, help=what)
    what = "when functions are compiled that aren't yet: meanwhile, or before --time-limit begins"
    parser.add_argument("--compile", choices=("background", "first"), default="background", help=what)
    parser.add_argument("--deterministic", action="store_true", help="one thread and work limits: the same run twice")
    what = "memory of the solving process, in GiB (or 4GiB, 500MB)"
    parser.add_argument("--memory-limit", metavar="SIZE", type=gibibytes, help=what)
    add_oracle(parser)
    parser.add_argument(
        "--native", metavar="NAME=VALUE", action="append", default=[], help="pass a parameter to the solver"
    )


def solve_options(args: argparse.Namespace) -> SolveOptions:
    """The options, checked."""
    from chipmap.inputs.settings import parse

    if args.solver not in (None, "highs", "gurobi", "cpsat"):
        what = f"no solver is called {args.solver!r}"
        raise InputError(what, "--solver", choices(args.solver, ["highs", "gurobi", "cpsat"]))
    as_given = ("time_limit", "gap", "threads", "seed", "deterministic", "solver", "oracle", "memory_limit", "compile")
    options = SolveOptions(
        **{name: getattr(args, name) for name in as_given},
        warm_start=getattr(args, "warm_start", None),
        evaluator=getattr(args, "evaluator", None),
        evaluations=getattr(args, "evaluations", None),
        native=dict(parse(setting, "--native") for setting in args.native),
    )
    options.check()
    say(*beyond_the_machine(options))
    return options


def beyond_the_machine(options: SolveOptions) -> list[str]:
    """What to say of threads and memory that are asked for, where this machine has less."""
    import os

    from chipmap.records.quantities import size

    lines = []
    if options.threads is not None and options.threads > cores():
        lines.append(f"--threads {options.threads}: this process may use {counted(cores(), 'core')}; more threads wait")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if options.memory_limit is not None and options.memory_limit > memory > 0:
        told = f"{size(options.memory_limit)} are more than the {size(memory)} of this machine"
        lines.append(f"--memory-limit: {told}, so the limit may never act")
    return lines


def exit_code(result: Result) -> int:
    """0 solution, 2 infeasible, 3 nothing found, 4 bound and solution contradict each other, 6 the method broke off."""
    if result.failure:
        return 6
    if result.status == "error":
        return 4 if result.solution is not None else 3
    return {"infeasible": 2, "unknown": 3}.get(result.status, 0)


#: Kinds of notes that users always read.
TOLD = (
    "plan",
    "unused start",
    "unused option",
    "not reproducible",
    "oracle",
    "evaluator",
    "cache",
    "compiled",
    "advice",
    "no proof",
    "coarse",
    "learned",
)


def remarks(result: Result) -> list[str]:
    """What a user should read beside the row: infeasibility, an abnormal end, and notes of the kinds :data:`TOLD`.

    Where there is neither a solution nor a reason, every note.
    """
    lines = []
    for reason in result.infeasibility:
        lines.append(f"infeasible ({reason.label}): {reason.message}")
        lines.extend(f"  {remedy}" for remedy in reason.remedies)
    end = result.termination
    if end.limit in ("memory", "other") or end.reason in ("other_error", "numerical_error", "imprecise"):
        lines.append(f"stopped ({end.reason if end.limit == 'none' else end.limit}): {end.detail}")
    if result.failure and result.failure != end.detail:
        lines.append(f"failed: {result.failure}")
    unexplained = result.status in ("unknown", "infeasible") and not result.infeasibility
    lines.extend(note.text for note in result.notes if unexplained or note.kind in TOLD)
    return lines


def write_file(path: str, data: bytes) -> None:
    """Write a file whole (``-``: standard output); :class:`InputError` where that can't be done."""
    from chipmap.records.files import write_whole

    if path == "-":
        if sys.stdout.isatty():  # as all other text: names give a terminal no commands
            sys.stdout.write(data.decode(errors="replace"))
        else:
            sys.stdout.buffer.write(data)
        return
    try:
        write_whole(Path(path), data)
    except OSError as error:
        remedy = "Check the folder, its permissions and the disk."
        raise InputError(f"can't be written: {error.strerror or error}", path, remedy) from None
    say(f"wrote {path}")


def read_instance(source: str, settings: list[str], *rest: Any) -> Any:
    """:func:`chipmap.inputs.reading.read`, and a line about what ``--set path:=OBJECT`` has reset."""
    from chipmap.inputs.reading import read
    from chipmap.inputs.settings import resets

    instance = read(source, settings, *rest)
    say(*resets(instance, settings))
    return instance


def cut(instance: Any, grain: str | None, whole: list[str] | None = None) -> Any:
    """The instance with what stays together at that grain, and of modules that stay ``whole``, which is said; None: as
    it is."""
    from chipmap.family import FAMILY_NAMES, family_of, get_family, resolve

    family = family_of(instance)
    for option, name, given in (("cut", "cut", grain and [grain]), ("no-split", "no_split", whole)):
        if not given:
            continue
        if name not in family.transforms:
            graphs = ", ".join(one for one in FAMILY_NAMES if name in get_family(one).transforms)
            what = f"instances of family {family.name!r} have no modules to cut between"
            raise InputError(what, f"--{option}", f"Leave it out, or convert the network with --family ({graphs}).")
        made = resolve(family.transforms[name])(instance, given)
        words = ", ".join(f"{amount:,} {what}" for what, amount in made.report.items())
        say(f"{option} {' '.join(given)}: adds {words or 'nothing'}")
        instance = made.instance
    return instance


def pin(instance: Any, files: list[str] | None) -> tuple[Any, str]:
    """The instance with what the files of ``--pin`` say, and the remark on that (empty: they pin nothing)."""
    from chipmap.inputs.pinning import pinned

    made = pinned(instance, files)
    return made.instance, made.note


def unmatched(instance: Any, settings: Iterable[str]) -> list[str]:
    """What to say of settings of an efficiency whose key is no kind of operation: they change nothing."""
    from chipmap.inputs.settings import split

    graph, lines = getattr(instance, "graph", None), []
    kinds = dict.fromkeys(operation.kind for operation in getattr(graph, "operations", ()))
    for setting in settings:
        _, found, key = split(setting)[0].partition("efficiency.")
        if found and kinds and key not in kinds:
            lines.append(f"--set {setting}: changes nothing: no operation is of kind {key!r}")
            lines.append(f"  {choices(key, kinds, 'Kinds')}")
    return lines


def titled(name: str, settings: Iterable[str]) -> str:
    """An instance's name with what was changed: ``ring/tiny-skip [constraints=C1,C2]``."""
    from chipmap.inputs.settings import brief

    changes = ", ".join(brief(settings))
    return f"{name} [{changes}]" if changes else name


def say(*lines: str) -> None:
    """Lines on standard error."""
    for line in lines:
        print(line, file=sys.stderr)


def columns(rows: Iterable[tuple[Any, ...]], indent: str = "  ") -> str:
    """:func:`chipmap.report.tables.columns`."""
    from chipmap.report import tables

    return tables.columns(rows, indent)
