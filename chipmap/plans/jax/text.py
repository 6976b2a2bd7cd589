"""Names and lines of a program's text, and the functions that it takes over."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from chipmap.plans.jax.layouts import AXIS
from chipmap.plans.jax.planning import Held

#: The input that is 1: what is exchanged again is multiplied by it first, each time once more, or the compiler would
#: take what was sent.
AGAIN = "again"
WIDTH = 118
_SUFFIX = {"RR": "_all", "SR": "_rows", "RS": "_columns", "EE": "_experts", "sum": "_terms"}
#: What a program's own text calls otherwise.
_TAKEN = {AGAIN, "inputs", "P", "Array", "Any", "jax", "jnp", "lax"}


class Names:
    """Names of Python for tensors in their layouts, and for functions."""

    def __init__(self, chips: int, plain: bool = False) -> None:
        self.chips, self.plain = chips, plain
        self.found, self.taken = dict[Held | str, str](), set(_TAKEN)

    def of(self, held: Held) -> str:
        """The name of a variable."""
        layout = held.layout
        parts = str(layout.parts) if layout.kind in AXIS and layout.parts != self.chips else ""
        return self._unique(held, word(held.tensor) + ("" if self.plain else _SUFFIX[layout.kind] + parts))

    def function(self, name: str) -> str:
        """The name of a kernel's function."""
        return self._unique(name, f"run_{word(name)}")

    def _unique(self, key: Held | str, name: str) -> str:
        if key not in self.found:
            while name in self.taken or keyword.iskeyword(name) or name in _defined():
                name += "_"
            self.taken.add(name)
            self.found[key] = name
        return self.found[key]


def word(name: str) -> str:
    """A tensor's name as an identifier."""
    found = re.sub(r"\W", "_", name.replace("W:", "W_").replace("+", "_and_"), flags=re.ASCII)
    return found if re.match(r"[A-Za-z]", found) else f"x{found}"


def assigned(target: str, value: str) -> list[str]:
    line = f"{target} = {value}"
    if len(line) < WIDTH - 8 or "(" not in value:
        return [line]
    name, _, arguments = value.partition("(")
    return broken(f"{target} = {name}(", re.split(r", (?![^(\[]*[)\]])", arguments.removesuffix(")")), ")")


def broken(start: str, arguments: Sequence[str], end: str) -> list[str]:
    return [start, *(f"    {one}," for one in arguments), end]


def scoped(scope: str, lines: Sequence[str]) -> list[str]:
    return [f'with jax.named_scope("{scope}"):', *(f"    {line}" for line in lines)]


def script(name: str) -> str:
    """What stands behind the imports of a module of ``script``."""
    text = files("chipmap.plans.jax.script").joinpath(f"{name}.py").read_text(encoding="utf-8")
    return text.partition("# copied from here on\n")[2].strip("\n")


@cache
def _defined() -> dict[str, str]:
    """The functions of ``script.arithmetic``: name -> text."""
    text = files("chipmap.plans.jax.script").joinpath("arithmetic.py").read_text(encoding="utf-8")
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in found}


def arithmetic(names: Iterable[str]) -> list[str]:
    """The functions of these names and those that they call, in the order of their module."""
    defined, wanted, waiting = _defined(), set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in defined and name not in wanted:
            wanted.add(name)
            waiting += re.findall(r"\b[a-z_]+\b", defined[name])
    return [text for name, text in defined.items() if name in wanted]
