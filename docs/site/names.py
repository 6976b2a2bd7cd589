"""The names that a link to a Python file may end with: ``chipmap/solve.py#with_changes``."""

from __future__ import annotations

import ast


def definitions(source: str) -> dict[str, int]:
    """The line of each function, class, method (``Class.name``) and constant of a module at its top level."""
    found: dict[str, int] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found.setdefault(prefix + node.name, line)
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(prefix + target.id, node.lineno)

    visit(ast.parse(source).body, "")
    return found
