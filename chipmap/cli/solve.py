"""``chipmap solve``: instances to checked solutions with their gaps."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from chipmap import archive
from chipmap.cli import common
from chipmap.cli.common import add_solve_options, exit_code, read_instance, remarks, say, solve_options
from chipmap.cli.parsing import whole
from chipmap.cli.progress import Progress
from chipmap.family import family_of, resolve
from chipmap.inputs.reading import Conversion
from chipmap.inputs.settings import brief
from chipmap.process.signals import Interrupts
from chipmap.records import ChipmapError, InputError, Record
from chipmap.result import Note, Result, TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.solve import check, solve

Row = dict[str, Any]


EXAMPLES = (
    "chipmap solve ring/tiny-skip",
    "chipmap solve ring/bert-large-36 --time-limit 2min --out runs/bert",
    "chipmap solve ring/tiny-skip --set package.sram_bytes=64MiB --set constraints=C1,C2",
    "chipmap solve ring/tiny-chain ring/tiny-skip --method ring/cpsat --solver cpsat --format csv",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Solve each INSTANCE in a process of its own and print one row for it. Without --method, the family's best chain
    runs until the gap is closed or a limit is reached; what was found by then is kept."""
    common.add_instance(parser, "instances", nargs="+")
    common.add_cut(parser)
    common.add_pin(parser)
    common.add_costs(parser, "measured times of operations, or costs of layers, as convert takes them")
    add_solve_options(parser)
    what = "a cost of your own: a function (instance, solution) -> number, for methods that take one (ring/guided)"
    parser.add_argument("--evaluator", metavar="MODULE:FUNCTION", help=what)
    what = "calls of the evaluator (default 100)"
    parser.add_argument("--evaluations", metavar="N", type=whole, help=what)
    parser.add_argument("--warm-start", metavar="NAME|FILE|none", help="what to start from (default: greedy)")
    parser.add_argument("--out", metavar="DIR", help="archive the run in DIR (of several instances: DIR/NAME each)")
    common.add_format(parser, "csv")
    parser.add_argument("--plot", metavar="FILE", help="draw the solution to FILE (.png, .svg or .pdf)")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def run(args: argparse.Namespace) -> int:
    """Solve all instances; the exit code is the highest of theirs, or that of the interrupt."""
    options = solve_options(args)
    if args.plot and len(args.instances) > 1:
        raise InputError("is for one instance", "--plot", "Use --out, then `chipmap plot` on each archive.")
    if args.plot:
        _check_picture(args.plot)
    codes, rows, taken = [0], list[Row](), set[str]()
    conversion = Conversion(equipment={} if args.costs is None else {"costs": args.costs})
    with Interrupts(eager=True) as interrupts, closing(Progress(args.quiet)) as progress:
        for source in progress.over(args.instances):
            try:
                started = time.monotonic()
                instance = read_instance(source, args.set, args.family, conversion)
                instance = common.cut(instance, args.cut, args.no_split)
                instance, pins = common.pin(instance, args.pin)
                family = family_of(instance)
                family.method(args.method, args.evaluator is not None)
                say(*common.unmatched(instance, args.set))
                interrupts.eager = False
                target = _target(args, instance, taken)
                shown, code = _solved(instance, started, target, args, options, progress, pins)
                rows.append(shown)
                codes.append(code)
            except KeyboardInterrupt:
                say("chipmap: interrupted")
            except ChipmapError as error:
                say(f"chipmap: {error}")
                codes.append(error.exit_code)
            if interrupts.signal is not None:
                break
            interrupts.eager = True
        interrupts.eager = False
        _print_table(args.format, rows)
        return interrupts.exit_code or max(codes)


def _solved(
    instance: Record,
    started: float,
    target: Path | None,
    args: argparse.Namespace,
    options: SolveOptions,
    progress: Progress,
    pins: str = "",
) -> tuple[Row, int]:
    """Solve, archive and report one instance; returns its row and exit code. ``pins``: the remark on its pins."""
    from chipmap.report.rows import row, standing

    keeper = Keeper(target)
    options = keeper.resume(instance, options)

    def listener(event: TraceEvent, run: Run) -> None:
        keeper.hear(event, run)
        progress(event, run)

    try:
        log = keeper.writer.log if keeper.writer is not None else None
        hear = progress.before if options.compiles_first else progress.meanwhile
        result = solve(
            instance, args.method, options, isolate=True, listener=listener, started=started, log=log, tell=hear
        )
    except ChipmapError:
        if keeper.writer is not None:
            keeper.writer.abandon()
        raise
    changes = (*brief(args.set), *([f"cut={args.cut}"] if args.cut not in (None, "any") else []))
    changes += tuple(f"no_split={name}" for name in args.no_split or ())
    changes += tuple(f"pin={Path(name).name}" for name in args.pin or ())
    notes = (*result.notes, *([Note(kind="plan", text=pins)] if pins else []))
    result = msgspec.structs.replace(result, changes=changes, notes=notes)
    kept = keeper.finish(result, instance)
    progress.pause()
    shown = row(result)
    if target is not None:
        shown["folder"] = str(target)
    if not kept and result.solution is not None:
        shown["solution"] = result.solution
    if args.format == "json":
        print(json.dumps(shown, allow_nan=False), flush=True)
    beside, impossible = standing(result)
    told = (result.certificate.headline, result.certificate.outlook) if result.certificate is not None else ()
    say(*(f"{result.instance}: {line}" for line in (*remarks(result), *beside, *filter(None, told))))
    kept = (not args.plot or _plot(instance, result, args.plot)) and kept
    code = 4 if impossible else exit_code(result)
    return shown, code if kept else max(1, code)


class Keeper:
    """Keeps a run's archive, and its best solution on disk while it goes on; a full disk ends the keeping only."""

    def __init__(self, target: Path | None) -> None:
        self.target, self.failed = target, False
        self.writer: archive.Writer | None = None
        if target is not None:
            with self._writing():
                self.writer = archive.Writer(target)

    def resume(self, instance: Record, options: SolveOptions) -> SolveOptions:
        """Start from the best solution that runs which were cut off have left there, if none else is asked for."""
        if self.writer is None or options.warm_start is not None:
            return options
        found: dict[Path, int] = {}
        for path in self.writer.earlier:
            with suppress(ChipmapError):  # of another instance, or damaged: it is kept
                certificate = check(instance, path)
                if certificate.feasible and certificate.objective is not None:
                    found[path] = certificate.objective
        if not found:
            return options
        say(f"chipmap: {self.target}: an earlier run was cut off there; this one starts from its best solution")
        self.writer.superseded = len(found) == len(self.writer.earlier)
        return options.replace(warm_start=str(min(found, key=found.__getitem__)))

    def hear(self, event: TraceEvent, run: Run) -> None:
        """Put a new incumbent on disk."""
        if self.writer is not None and event.event == "solution" and run.best is not None:
            with self._writing():
                self.writer.solution(run.best.solution)

    def finish(self, result: Result, instance: Record) -> bool:
        """Make the archive whole; False if one was asked for and can't be written."""
        if self.writer is not None:
            with self._writing():
                archive.finish(self.writer, result, instance)
        return not self.failed

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Give up and say so where the disk refuses."""
        try:
            yield
        except OSError as error:
            self.failed = True
            if self.writer is not None:
                self.writer.abandon()
                self.writer = None
            full = archive.is_full(error)
            remedy = "Free some space, or name another folder with --out." if full else "Check the folder."
            say(f"chipmap: {self.target}: the archive can't be written: {error.strerror}")
            say(f"  The solution will be printed on standard output. {remedy}")


def _target(args: argparse.Namespace, instance: Record, taken: set[str]) -> Path | None:
    """Where the archive of this instance goes: DIR, or DIR/NAME when there are several instances."""
    if args.out is None:
        return None
    if len(args.instances) == 1:
        return Path(args.out)
    plain = _file_name(str(getattr(instance, "name", "")))
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return Path(args.out) / name


def _file_name(name: str) -> str:
    """The part of ``name`` that every file system and its encoding takes."""
    try:
        os.fsencode(name)
        kept = re.sub(r"[^\w.+-]+", "-", name)
    except UnicodeEncodeError:
        kept = re.sub(r"[^\w.+-]+", "-", name, flags=re.ASCII)
    return kept[:100].strip("-.") or "instance"


def _print_table(style: str, rows: list[Row]) -> None:
    from chipmap.report import tables

    solutions = [shown.pop("solution") for shown in rows if "solution" in shown] if style != "json" else []
    if rows and style != "json":
        sys.stdout.write(tables.table(rows, tables.terminal_width()) if style == "table" else tables.csv(rows))
    for solution in solutions:
        print(json.dumps(solution))


def _check_picture(path: str) -> None:
    """Refuse, before the solve, a picture that can't be written after it."""
    from chipmap.report.canvas import check_suffix

    check_suffix(path)
    if not Path(path).absolute().parent.is_dir():
        raise InputError("can't be written: its folder doesn't exist", path, "Make the folder first.")


def _plot(instance: Record, result: Result, path: str) -> bool:
    """Draw the solution; says why, and returns False, where that fails: the result is told all the same."""
    family = family_of(instance)
    if result.solution is None:
        say(f"no solution, so {path} is not drawn")
        return True
    try:
        family.draw(path, instance, resolve(family.solution).make(**result.solution), bound=result.bound)
    except ChipmapError as error:
        say(f"chipmap: {error}")
        return False
    say(f"wrote {path}")
    return True
