"""Every regular expression of the package, and texts on which one that looks back too often never ends.

``python -m tests.patterns FIRST`` tries them from number FIRST on, and prints the number of each before its turn. A
limit on the processor's seconds ends the process at the first expression that takes too long.
"""

from __future__ import annotations

import ast
import re
import resource
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import chipmap
from chipmap.family import FAMILY_NAMES, get_family

ROOT = Path(chipmap.__file__).parent
FUNCTIONS = frozenset({"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
#: Those that ask at every place of a text.
ANYWHERE = frozenset({"search", "sub", "subn", "split", "findall", "finditer"})
#: Characters that are repeated, beside those of the expression itself.
POOL = "a0_ \n#/\\\"'<>[](){}-,.;:=+*`$\u00b5"
#: Characters of a text; an expression whose work is their square takes many times SECONDS.
LENGTH = 50_000
SECONDS = 3
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


class Found(NamedTuple):
    """An expression, where it stands, and whether it is asked at every place of a text."""

    where: str
    pattern: Any
    flags: int
    anywhere: bool


def found() -> list[Found]:
    """All of them; :class:`LookupError` for one that can't be told from its place."""
    listed: list[Found] = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "import re" not in text:
            continue
        where = path.relative_to(ROOT.parent)
        name = ".".join(where.with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(text)
        used = _methods(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _asks(node.func):
                listed += _told(node, _names_of(name), f"{where}:{node.lineno}", used)
    return listed


def _names_of(module: str) -> dict[str, Any]:
    """A module's names; only ``re`` where it needs an extra that isn't there."""
    try:
        return dict(vars(import_module(module)))
    except (ImportError, SystemExit):
        return {"re": re}


def _asks(function: ast.expr) -> bool:
    """Whether it is a function of :mod:`re` that takes an expression."""
    if not isinstance(function, ast.Attribute) or function.attr not in FUNCTIONS:
        return False
    return isinstance(function.value, ast.Name) and function.value.id == "re"


def _methods(tree: ast.AST) -> set[str]:
    """The names on which methods that ask everywhere are called in a module."""
    return {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in ANYWHERE
    }


def _told(node: Any, scope: dict[str, Any], where: str, used: set[str]) -> Iterator[Found]:
    flags = next((one.value for one in node.keywords if one.arg == "flags"), None)
    if node.func.attr == "compile" and len(node.args) > 1:
        flags = node.args[1]
    elif node.func.attr in ("match", "fullmatch", "search") and len(node.args) > 2:
        flags = node.args[2]
    for pattern in _values(node.args[0], scope, where):
        number = 0 if flags is None else int(eval(compile(ast.Expression(flags), where, "eval"), scope))
        names = {name for name, value in scope.items() if getattr(value, "pattern", None) == pattern}
        anywhere = node.func.attr in ANYWHERE or bool(names & used) or (node.func.attr == "compile" and not names)
        yield Found(where, pattern, number, anywhere)


def _values(node: ast.expr, scope: dict[str, Any], where: str) -> list[Any]:
    """The expressions that an argument stands for."""
    try:
        return [eval(compile(ast.Expression(node), where, "eval"), scope)]
    except NameError:
        told = ast.unparse(node)
    if where.startswith("chipmap/cli/parsing.py") and told == "pattern":
        return [pattern for pattern, _ in scope["_WORDS"]]
    if where.startswith("chipmap/records/formats.py") and told == "self.begins.encode()":
        return [form.begins.encode() for family in map(get_family, FAMILY_NAMES) for form in family.formats]
    if where.startswith("chipmap/instances/dataflow/axes.py") and "names" in told:
        return [pattern.pattern for pattern, _ in scope["_FORWARD"]]
    raise LookupError(f"{where}: {told} stands for expressions that this test doesn't know")


def texts(pattern: str | bytes, flags: int) -> Iterator[str]:
    """Texts that repeat what an expression repeats, behind what it wants before that, and don't end as it wants."""
    plain = pattern.decode() if isinstance(pattern, bytes) else pattern
    units: dict[tuple[str, str], None] = {}
    for head, body in _repeated(parser.parse(plain, flags), ""):
        units[head, body] = None
    for character in dict.fromkeys(POOL + re.sub(r"[\\A-Za-z0-9]", "", plain)):
        units["", character] = None
    for head, body in units:
        if body:
            repeated = head + body * (LENGTH // len(body))
            yield repeated
            yield repeated + "\x00"


def _repeated(parts: Any, head: str) -> Iterator[tuple[str, str]]:
    """(what stands before, what is repeated) of every repeat in an expression."""
    for operation, argument in parts:
        if operation in _REPEATS:
            _, _, inner = argument
            for body in _samples(inner):
                yield head, body
            yield from _repeated(inner, head)
        elif operation is codes.SUBPATTERN:
            yield from _repeated(argument[3], head)
        elif operation is codes.BRANCH:
            for branch in argument[1]:
                yield from _repeated(branch, head)
        head += _samples([(operation, argument)])[0]


def _samples(parts: Any) -> list[str]:
    """Short texts that fit: a few for a single set of characters, one otherwise."""
    made = [""]
    for operation, argument in parts:
        if operation is codes.LITERAL:
            more = [chr(argument)]
        elif operation in (codes.IN, codes.NOT_LITERAL, codes.ANY):
            more = _characters(operation, argument)
        elif operation in _REPEATS:
            least, most, inner = argument
            more = [_samples(inner)[0] * max(least, min(most, 1))]
        elif operation is codes.SUBPATTERN:
            more = _samples(argument[3])
        elif operation is codes.BRANCH:
            more = [one for branch in argument[1] for one in _samples(branch)]
        else:  # places, conditions
            more = [""]
        made = [one + other for one in made for other in more][:6]
    return made


def _characters(operation: Any, argument: Any) -> list[str]:
    """Characters of a set."""
    if operation is codes.ANY:
        return ["a", "#"]
    one = parser.SubPattern(parser.State(), [(operation, argument)])
    from re import _compiler as compiler  # type: ignore[attr-defined]

    fits = compiler.compile(one)
    return [character for character in POOL if fits.match(character)][:6] or ["a"]


def tried(one: Found) -> None:
    """Ask an expression about all its texts."""
    compiled = re.compile(one.pattern, one.flags)
    for text in texts(one.pattern, one.flags):
        given: Any = text.encode() if isinstance(one.pattern, bytes) else text
        compiled.match(given)
        compiled.fullmatch(given)
        if one.anywhere:
            for _ in compiled.finditer(given):
                pass


def limited(one: Found) -> None:
    """Ask about all texts; the system ends this process (SIGXCPU) where that takes more than SECONDS."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    tried(one)


def main(first: int) -> int:
    """Try all from number ``first`` on."""
    for number, one in list(enumerate(found()))[first:]:
        print(f"{number} {one.where}: {one.pattern!r}", flush=True)
        limited(one)
    print("all")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
