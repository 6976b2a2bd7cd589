"""The parser: argparse with chipmap's own words, with the nearest names for what isn't known, and with examples."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn

from chipmap.records import InputError, amounts, choices, nearest

#: What argparse says -> what is wrong, in our words.
_WORDS = (
    (r"expected one argument", "needs a value"),
    (r"expected at least one argument", "needs a value"),
    (r"ignored explicit argument (?P<given>.*)", "takes no value, but is given {given}"),
    (r"not allowed with argument (?P<other>.*)", "can't be used with {other}"),
)


class Formatter(argparse.HelpFormatter):
    """Argparse's layout, except that examples keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class Version(argparse.Action):
    """Prints chipmap's version, Python's and those of the solvers, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print and end."""
        import platform

        from chipmap import __version__
        from chipmap.solvers.availability import PACKAGES, package_version

        print(f"chipmap {__version__}\nPython {platform.python_version()}")
        for name, package in PACKAGES.items():
            print(f"{name} ({package}) {package_version(package) or 'not installed'}")
        sys.stdout.flush()  # a full disk is said before the end
        parser.exit(0)


class Once(argparse.Action):
    """Stores a value; a second one is an :class:`InputError`, so that neither is dropped in silence."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        """Store ``values``."""
        known = getattr(namespace, self.dest)
        if known is not None:
            remedy = f"Give one {self.dest} per command; `chipmap report` then shows their folders side by side."
            raise InputError(f"is given twice: {known} and {values}", self.option_strings[0], remedy)
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """Argparse's parser, except that bad usage is an :class:`InputError` (exit code 1: 2 means infeasible here)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, **options})

    def parsed(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """The arguments; what is left over is named, with the option or the command that may be meant."""
        found, extra = self.parse_known_args(arguments)
        if extra:
            command = self.commands().get(getattr(found, "command", ""), self)
            extra = [word for word in extra if word != "--"]
            options = [word for word in extra if word.startswith("-") and word != "-"]
            if options or (extra and not command._takes(found, extra)):
                self._unknown(command, (options or extra)[0])
        return found

    def _takes(self, found: argparse.Namespace, extra: list[str]) -> bool:
        """Whether arguments behind an option are those of the one argument that may be left out or given several times;
        argparse looks for these before the first option only. They are put into ``found``."""
        several = [action for action in self.positionals() if action.nargs in ("?", "+", "*")]
        if len(several) != 1:
            return False
        name, known = several[0].dest, getattr(found, several[0].dest)
        if several[0].nargs == "?" and (known is not None or len(extra) > 1):
            return False
        setattr(found, name, extra[0] if several[0].nargs == "?" else [*(known or []), *extra])
        return True

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write the help, and know whether that worked (argparse's own loses it in silence on a full disk)."""
        out = file or sys.stderr
        out.write(message)
        out.flush()

    @property
    def short(self) -> str:
        """The command's name, as messages say it."""
        return self.prog.removeprefix("chipmap ")

    def commands(self) -> dict[str, Parser]:
        """The parsers of the commands by name."""
        groups = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return {name: parser for group in groups for name, parser in group.choices.items()}

    def options(self) -> dict[str, argparse.Action]:
        """The options by name, ``--help`` among them."""
        return {name: action for action in self._actions for name in action.option_strings if name.startswith("--")}

    def positionals(self) -> list[argparse.Action]:
        """The arguments that are no options."""
        return [action for action in self._actions if not action.option_strings]

    def _unknown(self, command: Parser, given: str) -> NoReturn:
        name = given.partition("=")[0]
        remedy = f"`{command.prog} --help` lists the options."
        if not given.startswith("-"):
            raise InputError(f"{given!r} is one argument too many", command.short, remedy)
        near = nearest(name, command.options())
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        raise InputError(f"no option is called {name}", command.short, meant + remedy)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        read: Any = action.type
        if read in _AMOUNTS:
            return read(arg_string, "/".join(action.option_strings))
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
            where = "/".join(action.option_strings) or self.prog.removeprefix("chipmap").strip()
            raise InputError(f"no {kind} is called {value!r}", where, choices(str(value), map(str, action.choices)))

    def error(self, message: str) -> NoReturn:
        """Raise the :class:`InputError` that argparse's ``message`` amounts to."""
        remedy = f"`{self.prog} --help` lists the options, with examples."
        missing = re.fullmatch(r"the following arguments are required: (.*)", message)
        if missing:
            names = missing[1].split(", ")
            raise InputError(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing", self.short, remedy)
        named = re.fullmatch(r"argument ([^:]*): (.*)", message, re.DOTALL)
        where, what = (named[1], named[2]) if named else (self.short, message)
        for pattern, words in _WORDS:
            match = re.fullmatch(pattern, what)
            if match:
                what = words.format(**match.groupdict())
        raise InputError(what, where, remedy)


def _seconds(text: str, where: str) -> float:
    """A time in seconds (``30``, ``2min``)."""
    return _positive(amounts.measured(text, "seconds", "s", where), text, where, "seconds")


def _gibibytes(text: str, where: str) -> int:
    """A size in bytes; a number alone counts in GiB."""
    return int(_positive(amounts.measured(text, "bytes", "GiB", where), text, where, "bytes"))


def _positive(number: Fraction, text: str, where: str, unit: str) -> float:
    if not 0 < number < 2**62:
        raise InputError(f"is {text}", where, f"Give more than 0, and less than 2^62 {unit}.")
    return float(number)


_AMOUNTS = (amounts.whole, amounts.share, _seconds, _gibibytes)
#: Types of arguments: (text, where) -> value, or an :class:`InputError` that is told as it is.
whole: Any
share: Any
seconds: Any
gibibytes: Any
whole, share, seconds, gibibytes = _AMOUNTS
