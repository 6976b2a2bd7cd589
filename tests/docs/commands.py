"""Options and exit codes of the command reference, from the parser. ``python -m tests.docs.commands`` writes them."""

from __future__ import annotations

import argparse
import re

from chipmap import cli
from chipmap.cli.parsing import Parser
from tests.docs.pages import ROOT, escaped

PAGE = ROOT / "docs" / "reference" / "commands.md"

#: Exit code -> what it means, and which messages or commands end with it.
EXIT_CODES = {
    0: ("done", "a solution, a bound, a valid certificate, or whatever else was asked for"),
    1: (
        "bad input or usage",
        "every message about an instance, a file, an option or a missing extra; standard output that can't be written; "
        "also a defect of chipmap, which the message says",
    ),
    2: (
        "proved infeasible",
        "`solve`, `bound`, `explain` and `front` of an instance without solution; `adopt` of a plan that no mapping "
        "keeps to",
    ),
    3: (
        "nothing found",
        "no solution or no bound within the limits; `train` before any checkpoint was judged; "
        "`measure` with operations that have no time yet",
    ),
    4: (
        "the checker refuses",
        "`check`, `explain` and `adopt` of a solution that violates a constraint, results that claim something else, "
        "and a bound that contradicts a checked solution",
    ),
    5: (
        "solver unavailable",
        "the solver that was asked for isn't installed or has no licence; `doctor` found a problem",
    ),
    6: ("the method broke off", "an error within the method, or its process died; what it had found is kept"),
    130: ("interrupted", "Ctrl-C; what was found by then is written"),
    143: ("ended by SIGTERM", "what was found by then is written (129: by SIGHUP)"),
}


def _prose(text: str) -> str:
    """A help text as Markdown: one line, options and arguments in code font."""
    pieces = re.split(r"(`[^`]*`)", escaped(" ".join(text.split())).replace("%%", "%"))
    return "".join(
        piece if piece.startswith("`") else re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", piece) for piece in pieces
    )


def _given(action: argparse.Action) -> str:
    """How an argument or option is written."""
    value = str(action.metavar or "")
    if action.choices and not value:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return {"+": f"{value}...", "*": f"[{value}...]", "?": f"[{value}]"}.get(str(action.nargs), value)
    return " ".join(filter(None, [", ".join(action.option_strings), value if action.nargs != 0 else ""]))


def _row(action: argparse.Action) -> str:
    says = [_prose(action.help or "")]
    if action.default and action.nargs != 0 and "default" not in says[0] and not isinstance(action.default, list):
        says.append(f"default: {escaped('standard output' if action.default == '-' else str(action.default))}")
    if isinstance(action, argparse._AppendAction):
        says.append("may be repeated")
    if action.option_strings and action.required:
        says.append("required")
    return f"| `{escaped(_given(action))}` | {'; '.join(filter(None, says))} |"


def _command(name: str, command: Parser) -> str:
    actions = [action for action in command._actions if "--help" not in action.option_strings]
    ordered = sorted(actions, key=lambda action: bool(action.option_strings))
    table = "\n".join(["| argument or option | what it does |", "|---|---|", *map(_row, ordered)])
    examples = "\n".join((command.epilog or "").removeprefix("examples:").replace("\n  ", "\n").strip().splitlines())
    parts = [
        f"### chipmap {name}",
        _prose(command.description or ""),
        table if actions else "",
        f"```text\n{examples}\n```",
    ]
    return "\n\n".join(filter(None, parts)).replace("\n\n", "\n", 1)


def exit_codes() -> str:
    """The table of exit codes."""
    rows = [f"| {code} | {meaning} | {ends} |" for code, (meaning, ends) in EXIT_CODES.items()]
    return "\n".join(["| code | meaning | ends so |", "|---|---|---|", *rows])


def options() -> str:
    """Each command with its arguments, options and examples."""
    return "\n\n".join(_command(name, command) for name, command in cli.parser().commands().items())


def text(before: str) -> str:
    """The page with what stands between its marks made anew."""
    for mark, made in (("exit codes", exit_codes()), ("options", options())):
        head, begin, rest = before.partition(f"<!-- {mark}: python -m tests.docs.commands -->")
        before = f"{head}{begin}\n{made}\n<!-- end of {mark} -->{rest.partition(f'<!-- end of {mark} -->')[2]}"
    return before


if __name__ == "__main__":
    PAGE.write_text(text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
