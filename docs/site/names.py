"""The names that a link to a Python file may end with: ``chipmap/solve.py#with_changes``."""

from __future__ import annotations

import ast


def definitions(source: str) -> dict[str, int]:
    """The line of each function, class and constant at a module's top level, and of those in a class.

    What stands in a class is known as ``Class.name``, and by its own name if nothing at the top level has that.
    """
    tree = ast.parse(source)
    found = _defined(tree.body)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            within = _defined(node.body)
            found |= {f"{node.name}.{name}": line for name, line in within.items()}
            found = within | found
    return found


def _defined(body: list[ast.stmt]) -> dict[str, int]:
    """What these statements define by name."""
    found: dict[str, int] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.setdefault(node.name, min([node.lineno, *(above.lineno for above in node.decorator_list)]))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, node.lineno)
    return found
