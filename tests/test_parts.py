"""Parts of kernels (``njit(part=True)``) are called by kernels alone: from Python they would run as plain Python, a
hundred times slower, and nobody would hear of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.sources import tree_of

ROOT = Path(__file__).resolve().parents[1]
#: Formulas of a few numbers, which Python may call now and then: once a start, or once every thousands of moves.
CHEAP = {"add_entry", "partition_time", "temperature", "worth"}
#: Decorators of compiled functions and of parts, as the families name them.
NJIT, PART = re.compile(r"njit|(called|compiled|part)$"), re.compile(r"(compiled|part)$|njit\(.*part=True")


def kernel(node: ast.AST) -> bool:
    """Whether this is a compiled function."""
    return isinstance(node, ast.FunctionDef) and any(NJIT.match(ast.unparse(one)) for one in node.decorator_list)


def part(node: ast.AST) -> bool:
    """Whether this is a part of compiled functions."""
    return isinstance(node, ast.FunctionDef) and any(PART.match(ast.unparse(one)) for one in node.decorator_list)


@cache
def parts() -> frozenset[tuple[str, str]]:
    """Module and name of each part."""
    found = set()
    for path in sorted((ROOT / "chipmap").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found |= {(module, node.name) for node in tree_of(path).body if isinstance(node, ast.FunctionDef) if part(node)}
    return frozenset(found)


def called_from_python(tree: ast.Module, module: str) -> Iterator[str]:
    """Names of parts that plain Python in a module refers to, with the line of each."""
    known = {name: (module, name) for home, name in parts() if home == module}
    rooms: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                if (node.module, one.name) in parts():
                    known[one.asname or one.name] = node.module, one.name
                rooms[one.asname or one.name] = f"{node.module}.{one.name}"
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if kernel(node):
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known:
            yield f"{module}:{node.lineno}: {node.id}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = rooms.get(node.value.id, ""), node.attr
            if found in parts():
                yield f"{module}:{node.lineno}: {node.attr}"


def test_parts_are_called_by_kernels_alone() -> None:
    assert len(parts()) > 100
    wrong = list[str]()
    for path in sorted((ROOT / "chipmap").rglob("*.py")):
        wrong += called_from_python(tree_of(path), ".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert [one for one in wrong if one.rsplit(": ")[1] not in CHEAP] == []


def test_a_call_from_python_is_found() -> None:
    source = "from chipmap.kernels.sorting import argsort\nfrom chipmap.kernels import sorting\n"
    source += "def f(a):\n    return argsort(a, 3, 1), sorting.position\n"
    assert len(list(called_from_python(ast.parse(source), "chipmap.made_up"))) == 2
