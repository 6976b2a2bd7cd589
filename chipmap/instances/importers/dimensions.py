"""Values of symbolic dimensions: given by the user by name, or computed from those in expressions such as ``8*s0``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from chipmap.instances.importers.program import MAX_DIMENSION
from chipmap.records import InputError

#: ``{"batch": (1,), "tokens": (1, 128)}``: the value of a dimension, or the shape of a tensor.
Dimensions = Mapping[str, tuple[int, ...]]

_LONGEST = 200
#: What two whole numbers may be combined by: functions of SymPy, and operators by the names of their syntax nodes.
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "Max": max,
    "Min": min,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "CeilDiv": lambda a, b: -(-a // b),
}
_OPERATORS = _FUNCTIONS | {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul}


def dimension(expression: str, given: Dimensions, tensor: str, where: str) -> int:
    """The value of a dimension of ``tensor``; :class:`InputError` names what has no value."""
    if len(expression) <= _LONGEST and len(given.get(expression, ())) == 1:
        return given[expression][0]
    try:
        tree = ast.parse(expression[: _LONGEST + 1], mode="eval").body
        missing = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in _FUNCTIONS]
        value = _evaluate(tree, given)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        value, missing = None, [expression[:_LONGEST]]
    if value is None or len(expression) > _LONGEST:
        absent = next((name for name in missing if name not in given), expression[:_LONGEST])
        what = f"the dimension {absent!r} of tensor {tensor!r} has no value"
        raise InputError(what, where, f"Give it one, such as `chipmap convert --dim '{absent}=8'`, or export it fixed.")
    return value


def _evaluate(node: ast.AST, given: Dimensions) -> int | None:
    """The value of an expression of whole numbers; None for what it doesn't know."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and abs(node.value) <= MAX_DIMENSION else None
    if isinstance(node, ast.Name):
        value = given.get(node.id, ())
        return value[0] if len(value) == 1 else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _evaluate(node.operand, given)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp):
        return _combined(type(node.op).__name__, _evaluate(node.left, given), _evaluate(node.right, given))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        return _combined(node.func.id, *(_evaluate(argument, given) for argument in node.args))
    return None


def _combined(name: str, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    try:
        if name == "Div":
            return a // b if a % b == 0 else None
        return _OPERATORS[name](a, b) if name in _OPERATORS else None
    except ZeroDivisionError:
        return None


def check_used(given: Dimensions, known: set[str], where: str) -> None:
    """:class:`InputError` for a name that the file doesn't have."""
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)[:20]) or "none"
            raise InputError(f"there is no dimension or tensor {name!r}", where, f"Those to give values to: {listed}.")
