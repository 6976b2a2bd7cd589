"""Values of symbolic dimensions: given by the user by name, or computed from those in expressions.

Two notations are read: that of formulas (``8*s0``, ``s0//2``, ``Max(1, s0)``) and that of calls, in which torch writes
its files (``Mul(Integer(8), Symbol('s0', positive=True, integer=True))``). Numbers are exact fractions.
"""

from __future__ import annotations

import ast
import math
import operator
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce

from chipmap.networks.importers.program import MAX_DIMENSION
from chipmap.records import InputError, counted

#: ``{"batch": (1,), "tokens": (1, 128)}``: the value of a dimension, or the shape of a tensor.
Dimensions = Mapping[str, tuple[int, ...]]
#: A size of a tensor: a number, or an expression.
Size = int | str

_LONGEST = 10_000
#: Intermediate results beyond this are taken for mistakes.
_LARGEST = MAX_DIMENSION**4


def _whole_power(a: Fraction, b: Fraction) -> Fraction | None:
    return a**b.numerator if b.denominator == 1 and abs(b) <= 64 and (a or b > 0) else None


#: What numbers may be combined by: functions of SymPy and torch, and operators by the names of their syntax nodes.
_TWO: dict[str, Callable[[Fraction, Fraction], Fraction | None]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "CleanDiv": operator.truediv,
    "Rational": operator.truediv,
    "FloorDiv": lambda a, b: Fraction(a // b),
    "CeilDiv": lambda a, b: Fraction(-(-a // b)),
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Pow": _whole_power,
    "PowByNatural": _whole_power,
    "Max": max,
    "Min": min,
    "Eq": lambda a, b: Fraction(a == b),
    "Equality": lambda a, b: Fraction(a == b),
    "NotEq": lambda a, b: Fraction(a != b),
    "Ne": lambda a, b: Fraction(a != b),
    "Unequality": lambda a, b: Fraction(a != b),
    "Gt": lambda a, b: Fraction(a > b),
    "StrictGreaterThan": lambda a, b: Fraction(a > b),
    "GtE": lambda a, b: Fraction(a >= b),
    "GreaterThan": lambda a, b: Fraction(a >= b),
    "Lt": lambda a, b: Fraction(a < b),
    "StrictLessThan": lambda a, b: Fraction(a < b),
    "LtE": lambda a, b: Fraction(a <= b),
    "LessThan": lambda a, b: Fraction(a <= b),
}
#: Those of them that take any number of arguments in calls.
_MANY = frozenset({"Add", "Mul", "Max", "Min"})
_ONE: dict[str, Callable[[Fraction], Fraction]] = {
    "Integer": lambda a: a,
    "Float": lambda a: a,
    "Identity": lambda a: a,
    "ToFloat": lambda a: a,
    "Abs": abs,
    "ceiling": lambda a: Fraction(math.ceil(a)),
    "CeilToInt": lambda a: Fraction(math.ceil(a)),
    "floor": lambda a: Fraction(math.floor(a)),
    "FloorToInt": lambda a: Fraction(math.floor(a)),
    "TruncToInt": lambda a: Fraction(math.trunc(a)),
    "RoundToInt": lambda a: Fraction(round(a)),
}
_KNOWN = frozenset({*_ONE, *_TWO, "Symbol", "Where", "ModularIndexing", "True", "False"})


def symbols(expression: str) -> list[str]:
    """The names of an expression's symbols, in order; the expression itself if it can't be read."""
    tree = _parsed(expression)
    if tree is None:
        return [expression[:200]]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in _KNOWN:
            found.append(node.id)
        elif isinstance(node, ast.Call) and (name := _symbol(node)) is not None:
            found.append(name)
    return list(dict.fromkeys(found))


def value_of(expression: str, given: Dimensions) -> int | None:
    """The value of an expression; None for one that can't be told, or is no whole number."""
    if len(given.get(expression, ())) == 1:
        return given[expression][0]
    tree = _parsed(expression)
    try:
        value = None if tree is None else _evaluate(tree, given)
    except (ArithmeticError, ValueError, RecursionError):
        return None
    return value.numerator if value is not None and value.denominator == 1 else None


def dimension(expression: str, given: Dimensions, tensor: str, where: str) -> int:
    """The value of a dimension of ``tensor``; :class:`InputError` names what has no value."""
    value = value_of(expression, given)
    if value is not None:
        return value
    absent = [name for name in symbols(expression) if name not in given]
    if not absent and _parsed(expression) is not None:
        said = ", ".join(f"{name}={given[name][0]}" for name in symbols(expression) if given[name])
        what = f"a dimension of tensor {tensor!r} has no value with {said}: it is no whole number, or too large"
        raise InputError(what, where, f"Give values that suit {expression[:200]}.")
    raise no_value([*absent, expression[:200]][0], tensor, where)


def no_value(name: str, tensor: str, where: str, options: Iterable[str] = ()) -> InputError:
    """The error for a dimension without a value; ``options`` are values for ``--dim`` that would do."""
    asked = " ".join(f"--dim {shlex.quote(option)}" for option in options or [f"{name}=8"])
    what = f"the dimension {name!r} of tensor {tensor!r} has no value"
    return InputError(what, where, f"Give it one: add {asked} to the command, or export it fixed.")


def _parsed(expression: str) -> ast.expr | None:
    if len(expression) > _LONGEST:
        return None
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _symbol(node: ast.Call) -> str | None:
    """The name in ``Symbol('s0', positive=True)``."""
    if isinstance(node.func, ast.Name) and node.func.id == "Symbol" and node.args:
        name = node.args[0]
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
    return None


def _evaluate(node: ast.AST, given: Dimensions) -> Fraction | None:
    """The value of an expression; None for what it doesn't know."""
    value: Fraction | None = None
    if isinstance(node, ast.Constant):
        value = _constant(node.value)
    elif isinstance(node, ast.Name):
        value = _given(node.id, given)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _evaluate(node.operand, given)
        value = None if inner is None else -inner
    elif isinstance(node, ast.BinOp):
        value = _called(type(node.op).__name__, [_evaluate(side, given) for side in (node.left, node.right)])
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides = [_evaluate(side, given) for side in (node.left, node.comparators[0])]
        value = _called(type(node.ops[0]).__name__, sides)
    elif isinstance(node, ast.Call) and (name := _symbol(node)) is not None:
        value = _given(name, given)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        value = _called(node.func.id, [_evaluate(argument, given) for argument in node.args])
    return value if value is not None and max(abs(value.numerator), value.denominator) <= _LARGEST else None


def _constant(value: object) -> Fraction | None:
    if isinstance(value, str):  # Float('0.5', precision=53)
        return Fraction(value) if len(value) < 40 and "e" not in value.lower() else None
    return Fraction(value) if isinstance(value, int | float) else None


def _given(name: str, given: Dimensions) -> Fraction | None:
    value = given.get(name, ())
    return Fraction(value[0]) if len(value) == 1 else None


def _called(name: str, arguments: Sequence[Fraction | None]) -> Fraction | None:
    values = [value for value in arguments if value is not None]
    if len(values) < len(arguments) or not values:
        return None
    if len(values) == 1 and name in _ONE:
        return _ONE[name](values[0])
    if len(values) == 2 and name in _TWO:
        return _TWO[name](*values)
    if name in _MANY:
        return reduce(_TWO[name], values)  # type: ignore[arg-type]
    if name == "Where" and len(values) == 3:
        return values[1] if values[0] else values[2]
    if name == "ModularIndexing" and len(values) == 3:
        return Fraction(values[0] // values[1] % values[2])
    return None


class UnknownDimensionError(InputError):
    """``name`` got a value, and the file has no dimension or tensor of that name."""

    def __init__(self, name: str, where: str, remedy: str) -> None:
        super().__init__(f"there is no dimension or tensor {name!r}", where, remedy)
        self.name = name


def check_used(given: Dimensions, known: set[str], where: str) -> None:
    """:class:`UnknownDimensionError` for a name that the file doesn't have."""
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)[:20]) or "none"
            raise UnknownDimensionError(name, where, f"Those to give values to: {listed}.")


def from_shapes(given: Dimensions, inputs: Mapping[str, Sequence[Size]], where: str) -> dict[str, tuple[int, ...]]:
    """``given`` with the symbols that given shapes of ``inputs`` settle.

    Raises :class:`InputError` where a shape doesn't fit its input, or doesn't tell a symbol.
    """
    values = dict(given)
    wanted = [
        (name, i, size, value)
        for name, shape in inputs.items()
        if name in given
        for i, (size, value) in enumerate(zip(shape, _fitting(name, shape, given[name], where), strict=True))
    ]
    for _ in wanted:  # a symbol that stands alone in one size may settle another
        for _, _, size, value in wanted:
            for name, found in _settled(size, value, values).items():
                values.setdefault(name, (found,))
    for name, i, size, value in wanted:
        holds = size if isinstance(size, int) else value_of(size, values)
        if holds is None:
            remedy = f"Give each by itself: {', '.join(symbols(str(size)))}."
            raise InputError(f"size {i} of {name!r} doesn't tell its symbols", where, remedy)
        if holds != value:
            what = f"size {i} of {name!r} is {holds} in this program, not {value}"
            raise InputError(what, where, "Give the size that it has, or export it with dynamic_shapes.")
    return values


def _fitting(name: str, shape: Sequence[Size], given: tuple[int, ...], where: str) -> tuple[int, ...]:
    if len(shape) != len(given):
        what = f"tensor {name!r} has {counted(len(shape), 'dimension')}, not {len(given)}"
        raise InputError(what, where, "Write one number for each, such as tokens=1x128.")
    return given


def _settled(size: Size, value: int, values: Dimensions) -> dict[str, int]:
    """The one symbol in a size without a value, where the size is linear in it: size(n) = size(0) + n · slope."""
    unknown = [name for name in symbols(size) if name not in values] if isinstance(size, str) else []
    if len(unknown) != 1:
        return {}
    at = [value_of(str(size), {**values, unknown[0]: (n,)}) for n in (0, 1)]
    if at[0] is None or at[1] is None or at[0] == at[1]:
        return {}
    return {unknown[0]: (value - at[0]) // (at[1] - at[0])}


def check_ranges(values: Dimensions, ranges: Mapping[str, tuple[int | None, int | None]], where: str) -> None:
    """:class:`InputError` for a value outside the range that the program was exported for.

    A smallest value of 2 is no limit: torch starts ranges there because sizes 0 and 1 are special to it.
    """
    for name, (least, most) in ranges.items():
        if len(values.get(name, ())) != 1:
            continue
        (value,) = values[name]
        if (least is not None and least > 2 and value < least) or (most is not None and value > most):
            said = f"from {least or 0} to {most}" if most is not None else f"from {least or 0} on"
            what = f"the dimension {name!r} is {value}, but the program was exported for sizes {said}"
            raise InputError(
                what, where, "Give a value in that range, or export with another range (torch.export.Dim)."
            )
