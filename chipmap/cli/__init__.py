"""The command line: ``chipmap COMMAND``. One module per command; this one finds it and turns errors into messages.

Exit codes: 0 solution (or done), 1 bad input or usage, 2 proved infeasible, 3 nothing within the limits, 4 the checker
refuses, 5 solver unavailable, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from chipmap.records import ChipmapError

#: The commands, in the order of the help; each is a module here with ``add_parser(subparsers)`` and ``run(args)``.
COMMANDS = ("solve", "check", "bound", "report", "info", "export", "generate", "convert", "plot", "doctor")


class Parser(argparse.ArgumentParser):
    """Argparse's parser, except that bad usage exits with 1 (2 means infeasible here)."""

    def error(self, message: str) -> NoReturn:
        """Print usage and message, exit with 1."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: {message}\n  `{self.prog} --help` lists the options.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        args = parser().parse_args(arguments)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except ChipmapError as error:
        print(f"chipmap: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # whoever read the output has gone, such as `head`; the interpreter must not try to flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("chipmap: interrupted", file=sys.stderr)
        return 130


def parser() -> Parser:
    """The parser of all commands."""
    from chipmap import __version__

    top = Parser(prog="chipmap", description="Machine-learning workloads on multi-chip accelerators, with proven gaps.")
    top.add_argument("--version", action="version", version=f"chipmap {__version__}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"chipmap.cli.{name}").add_parser(subparsers)
    return top
