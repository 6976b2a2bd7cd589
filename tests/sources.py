"""Sources of the package, parsed once for all tests that read them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

#: Where nodes that hold statements have them.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed source. The garbage collector waits: it would walk through the growing tree, for half of the time."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


def statements(tree: ast.AST) -> Iterator[Any]:
    """Every statement below ``tree``, without a look into expressions, which are most of it."""
    queue = [tree]
    while queue:
        node = queue.pop()
        inner = [one for block in BLOCKS for one in getattr(node, block, ())]
        yield from inner
        queue += inner
