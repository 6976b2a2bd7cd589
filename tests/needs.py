"""Which tests need a package: those whose code imports it or asks for it, in the test or in what it calls.

python -m tests.needs torch jax         the tests that need one of these
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Code:
    """What a piece of code imports or asks for with ``importorskip``, and the names that it uses."""

    packages: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)  # name -> the module of the tests that it is from


def _read(nodes: list[ast.AST]) -> _Code:
    found = _Code()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Import):
            found.packages |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found.packages.add(module.partition(".")[0])
            if module.startswith("tests"):
                found.modules |= {one.asname or one.name: module for one in node.names}
        elif isinstance(node, ast.Name):
            found.names.add(node.id)
        elif isinstance(node, ast.arg):
            found.names.add(node.arg)  # a fixture
        elif isinstance(node, ast.Call) and _called(node.func) == "importorskip" and node.args:
            found.packages |= {str(one.value) for one in node.args[:1] if isinstance(one, ast.Constant)}
    return found


def _called(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


@cache
def _module(path: Path) -> tuple[_Code, dict[str, _Code]]:
    """The code of a file outside its functions and classes, and that of each of these by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = [node for node in tree.body if isinstance(node, _Function | ast.ClassDef)]
    guarded = [n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    outer: list[ast.AST] = [node for node in tree.body if node not in inner and node not in guarded]
    return _read(outer), {node.name: _read([node]) for node in inner}


def _file(module: str) -> Path:
    path = ROOT / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def needed(path: Path, name: str, seen: set[tuple[Path, str]] | None = None) -> set[str]:
    """The packages that the function ``name`` of a file needs, by itself, its file and what it calls."""
    seen = set() if seen is None else seen
    if (path, name) in seen or not path.is_file():
        return set()
    seen.add((path, name))
    outer, functions = _module(path)
    code = functions.get(name, _Code())
    found = outer.packages | code.packages
    for used in code.names & functions.keys():
        found |= needed(path, used, seen)
    modules = {**outer.modules, **code.modules}
    for used, module in modules.items():
        if used in code.names or used in code.modules:
            found |= needed(_file(module), used, seen)
    return found


def needing(packages: set[str]) -> dict[str, set[str]]:
    """``tests/a/test_b.py::test_c`` -> those of ``packages`` that it needs, for all tests that need any."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in _module(path)[1]:
            if name.startswith("test_") and (wanted := needed(path, name) & packages):
                found[f"{path.relative_to(ROOT).as_posix()}::{name}"] = wanted
    return found


if __name__ == "__main__":
    for test, wanted in needing(set(sys.argv[1:])).items():
        print(test, ", ".join(sorted(wanted)))
