"""The house's figures: how long files and functions may be, and how many parameters a function may take.

The other figures (no circle of imports, few modules at the top level) are in ``tests/test_imports.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chipmap.family import FAMILY_NAMES, get_family
from tests.sources import statements, tree_of

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "chipmap").rglob("*.py"))

FILE_LINES = 400
FUNCTION_LINES = 80
PARAMETERS = 12

#: Functions that are longer, each with its lines now and what was measured about cutting it. At most one.
LONG: dict[str, int] = {}
#: Functions with more parameters, each with their number now. Generators named in a family's record aren't counted.
MANY: dict[str, int] = {
    "chipmap.instances.dataflow.workloads.llama:llama_network": 24,
    "chipmap.instances.dataflow.workloads.moe:moe_network": 20,
    "chipmap.solve:solve": 13,
}


@dataclass(frozen=True)
class Function:
    """A function of the package: ``module:name``, its lines and its parameters (``self`` counts)."""

    name: str
    lines: int
    parameters: int


def functions_of(tree: ast.AST, module: str) -> Iterator[Function]:
    """Every function and method below ``tree``, those inside functions as well."""
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            count = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) + bool(given.vararg) + bool(given.kwarg)
            assert node.end_lineno is not None
            yield Function(f"{module}:{node.name}", node.end_lineno - node.lineno + 1, count)


@cache
def functions() -> tuple[Function, ...]:
    """All functions of the package."""
    found: list[Function] = []
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found += functions_of(tree_of(path), module)
    return tuple(found)


def generators() -> set[str]:
    """The functions whose parameters are the names of ``--set``."""
    return {generator.function for name in FAMILY_NAMES for generator in get_family(name).generators}


def test_files_are_short() -> None:
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert not {name: count for name, count in lines.items() if count > FILE_LINES}


def too_large(sizes: list[tuple[str, int]], most: int, exceptions: dict[str, int]) -> list[str]:
    """The functions above ``most`` that aren't excepted up to their size, and exceptions that nothing needs now."""
    wrong = [f"{name}: {size}" for name, size in sizes if size > exceptions.get(name, most)]
    needed = {name for name, size in sizes if size > most}
    return wrong + [f"{name} needs no exception" for name in exceptions if name not in needed]


def test_functions_are_short() -> None:
    assert not too_large([(f.name, f.lines) for f in functions()], FUNCTION_LINES, LONG)
    assert len(LONG) <= 1


def test_functions_take_few_parameters() -> None:
    free = generators()
    assert not too_large([(f.name, f.parameters) for f in functions() if f.name not in free], PARAMETERS, MANY)


def test_the_figures_are_counted_right() -> None:
    tree = ast.parse("class A:\n    def f(self, a, /, b=1, *c, d, **e):\n        def g(): ...\n        return g\n")
    assert list(functions_of(tree, "m")) == [Function("m:f", 3, 6), Function("m:g", 1, 0)]
    sizes, wrong = [("f", 3), ("g", 4), ("h", 1), ("i", 5)], ["f: 3", "i: 5", "h needs no exception"]
    assert too_large(sizes, 2, {"g": 4, "h": 3, "i": 4}) == wrong
