"""``chipmap measure``: times of a program's operations on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.cli.parsing import seconds, whole
from chipmap.deadline import Deadline
from chipmap.process.signals import Interrupts

if TYPE_CHECKING:
    from chipmap.measuring.passes import Measured
    from chipmap.measuring.programs import Program

EXAMPLES = (
    "chipmap measure decoder.pt2 --out costs.csv",
    "chipmap measure encoder.pt2 decoder.pt2 --out costs.csv --passes 9 --time-limit 1h",
    "chipmap measure decoder.pt2 --device cuda --class gpu --out gpu.csv",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Run each operation of programs that torch.export has saved, on this machine's processor or GPU (extra torch), and
    write its time: the median over passes, with the repeat error. `--costs` of convert and solve takes the table, and
    `--costs learned:TABLE` for other networks. A table that exists is gone on with, and what was measured is kept when
    the time is over or at Ctrl-C."""
    parser.add_argument("programs", metavar="MODEL", nargs="+", help="a file that torch.export.save has written (.pt2)")
    parser.add_argument("--out", metavar="FILE", required=True, help="the table (CSV)")
    what = "how often each operation is measured, program by program in turn (default 5)"
    parser.add_argument("--passes", metavar="N", type=whole, default=5, help=what)
    what = "what runs them: cpu (default), or cuda for a GPU, whose kernels are timed without their launches"
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help=what)
    what = "threads of an operation (default 1, which counts processor time; more count time by the clock)"
    parser.add_argument("--threads", metavar="N", type=whole, default=1, help=what)
    what = "the class of devices that the times are of, for systems with several (default: none, or the GPU's name)"
    parser.add_argument("--class", metavar="NAME", dest="kind", help=what)
    what = "a module that registers operators which the programs call; may be repeated"
    parser.add_argument("--import", metavar="MODULE", dest="modules", action="append", default=[], help=what)
    what = "stop after so many seconds (or 30min; default 10min)"
    parser.add_argument("--time-limit", metavar="S", type=seconds, default=600.0, help=what)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Measure pass by pass; the table is written after each program. A signal ends a program's pass, of which what was
    timed is kept."""
    from chipmap.cli.common import say
    from chipmap.measuring.programs import Program, register, require
    from chipmap.records.quantities import duration

    with Interrupts(eager=True) as interrupts:  # until a table is there, nothing can be lost
        require()
        register(args.modules)
        from chipmap.measuring.passes import class_of, clock_of, one_pass, pace_of
        from chipmap.measuring.table import earlier

        until, out = Deadline.after(args.time_limit), Path(args.out)
        until = replace(until, ended=lambda: "interrupted" if interrupts.signal is not None else None)
        clock, kind = clock_of(args.device, args.threads), class_of(args.device) if args.kind is None else args.kind
        found = earlier(out, kind)
        programs = [Program(path, args.device) for path in args.programs]
        _completed(found, programs)
        _write(out, found, kind)  # before anything is measured that couldn't be kept
        interrupts.eager = False
        references = list[float]()
        for number in range(args.passes):
            for program, reference in one_pass(programs, found, number, clock, until):
                references.append(reference)
                _write(out, found, kind)
                if not args.quiet:
                    say(f"pass {number + 1} of {args.passes}: {program.path}")
            if not until.keep_going():
                why = "the time is over" if interrupts.signal is None else "interrupted"
                say(f"{why} in pass {number + 1}: the same command goes on")
                break
    pace = pace_of(found)
    for program in programs:
        say(*dict.fromkeys(program.notes), _told(program, found[program.graph], pace))
    whole = not references and until.keep_going()
    say(f"{args.out} has {args.passes} passes already" if whole else f"wrote {args.out}")
    if references:
        drift = max(references) / min(references) - 1
        say(f"the reference kernel took {drift:.1%} longer at its slowest than at its fastest")
    if pace:
        say(f"times are at the processor's usual speed meanwhile, where a small sum takes {duration(pace, 2)}")
    done = (name in found[program.graph].operations for program in programs for name in program.operations)
    return interrupts.exit_code or (0 if all(done) else 3)


def _write(path: Path, found: Mapping[str, Measured], kind: str) -> None:
    """Write the table whole; :class:`InputError` where that can't be done."""
    from chipmap.measuring.table import text
    from chipmap.records import InputError
    from chipmap.records.files import write_whole

    try:
        write_whole(path, text(found, kind).encode())
    except OSError as error:
        remedy = "Check the folder, its permissions and the disk. The same command goes on."
        raise InputError(f"can't be written: {error.strerror or error}", str(path), remedy) from None


def _completed(found: dict[str, Measured], programs: list[Program]) -> None:
    """Give what a table of before has measured its FLOP, bytes and sorts."""
    for program in programs:
        known = found[program.graph].operations if program.graph in found else {}
        for name in known.keys() & program.works.keys():
            known[name].work = program.works[name]


def _told(program: Program, measured: Measured, pace: float) -> str:
    """Operations, their sum beside whole passes, and the repeat error, at a common pace."""
    from statistics import median

    from chipmap.records import counted
    from chipmap.records.quantities import duration

    done = measured.operations
    total = sum(one.ns(pace) for one in done.values())
    parts = [f"{counted(len(done), 'operation')} of {len(program.operations)} measured, {duration(total, 4)} in all"]
    if measured.whole.samples:
        parts.append(f"a whole pass takes {duration(measured.whole.ns(pace), 4)}")
    if measured.replayed:
        parts.append(f"{duration(median(measured.replayed), 4)} as a graph that is replayed")
    repeats = [(error, one.ns(pace)) for one in done.values() if (error := one.repeat(pace)) is not None]
    if repeats and total:
        weighted = sum(repeat * ns for repeat, ns in repeats) / sum(ns for _, ns in repeats)
        parts.append(f"repeat error {weighted:.1%} by time")
    return f"{program.path}: {', '.join(parts)}"
