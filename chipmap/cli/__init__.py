"""The command line: ``chipmap COMMAND``. One module per command; this one finds it and turns errors into messages.

Without a command it prints the commands.

Exit codes: 0 solution (or done), 1 bad input or usage, 2 proved infeasible, 3 nothing within the limits, 4 the checker
refuses, 5 solver unavailable, 6 the method broke off, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TextIO

from chipmap.cli.parsing import Parser, Version
from chipmap.cli.streams import plain_streams
from chipmap.process.memory import collect_seldom
from chipmap.provenance import COMMAND
from chipmap.records import ChipmapError

#: The commands and what each is for; each is a module here with ``run(args)``, ``EXAMPLES`` and
#: ``add_arguments(parser)``, whose docstring describes the command.
COMMANDS = {
    "solve": "solve instances: solution, lower bound, gap",
    "check": "certify a solution: valid or which constraints it violates, its objective",
    "bound": "lower bounds on the objective, tightest first",
    "bench": "a sweep over instances, methods and seeds, into a table that can be resumed",
    "explain": "why there is no solution or what holds the objective up, and what would help",
    "front": "solutions of which none is as good as another in all terms of the objective",
    "report": "optimality gaps of the runs in a directory, as a table or a web page",
    "show": "a run or a folder of runs as a page in the browser, with pictures",
    "info": "what there is: instances, generators, methods, formulations; figures of an instance; JSON Schemas",
    "export": "write a model as LP, MPS or CP-SAT proto",
    "generate": "make an instance with a generator",
    "convert": "make an instance from a published graph, change an instance's graph, or the format of a file",
    "calibrate": "latency and rate of links from measured transfers",
    "measure": "times of a program's operations on this machine",
    "train": "pre-train a learned policy on many graphs",
    "emit": "write a run's mapping as a plan that a runtime takes",
    "adopt": "certify a plan that others made, and say how far from the best it is",
    "plot": "draw a solution: mapping, time, memory, quotient graph",
    "doctor": "check solvers, versions, licences and the machine",
    "completion": "a script that completes commands, options and names in bash or zsh",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (this process's own by default); returns the exit code."""
    if sys.stdout is None and arguments is None:
        sys.stderr = sys.stderr or _nowhere()
        return _fail("standard output is closed\n  Send it to a file, or to /dev/null.", 1)
    sys.stderr = sys.stderr or _nowhere()
    if arguments is None:
        collect_seldom()
    try:
        with plain_streams():
            return _run(arguments)
    finally:
        if arguments is None:
            # all is written: a signal that comes while the interpreter ends must not make it look like a failure
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(arguments: Sequence[str] | None) -> int:
    """Parse, run the command, and turn what it raises into a message and an exit code."""
    try:
        COMMAND[:] = sys.argv[1:] if arguments is None else arguments
        if getattr(signal.getsignal(signal.SIGINT), "__module__", "") == "chipmap":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # what ended it while it was imported
        top = parser()
        args = top.parsed(arguments)
        if args.command is None:
            top.print_help()
            return 0
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except ChipmapError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        _forget_stdout()
        where = error.filename or "standard output"
        return 1 if isinstance(error, BrokenPipeError) else _fail(f"{where}: {error.strerror or error}", 1)
    except MemoryError:
        return _fail("out of memory\n  Use a smaller instance or a larger machine.", 1)
    except Exception as error:
        if os.environ.get("CHIPMAP_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}"
        return _fail(f"{what}\n  A defect of chipmap: please report it. CHIPMAP_TRACEBACK=1 shows where it is.", 1)


def _nowhere() -> TextIO:
    """A stream for those who have closed theirs."""
    return open(os.devnull, "w")


def _fail(message: str, code: int) -> int:
    print(f"chipmap: {message}", file=sys.stderr)
    return code


def _forget_stdout() -> None:
    """After a failed write, keep the interpreter from trying again as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> Parser:
    """The parser of all commands. Without a command ``command`` is None."""
    top = Parser(
        prog="chipmap",
        description="Machine-learning workloads on multi-chip accelerators, with proven gaps.",
        epilog="examples:\n  chipmap info\n  chipmap solve ring/tiny-skip\n  chipmap solve --help",
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the versions of chipmap, Python and the solvers")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for name, use in COMMANDS.items():
        command = import_module(f"chipmap.cli.{name}")
        examples = "".join(f"\n  {line}" for line in command.EXAMPLES)
        described = command.add_arguments.__doc__
        own = subparsers.add_parser(name, help=use, description=described, epilog=f"examples:{examples}")
        command.add_arguments(own)
        own.set_defaults(run=command.run)
    return top
