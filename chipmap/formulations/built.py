"""A built model, the same for every family and kind: the native object and the way between its values and solutions."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

from chipmap.deadline import Stop
from chipmap.family import Scope, Standing, family_of, standing
from chipmap.records import InputError

C = TypeVar("C")
R = TypeVar("R")
P = ParamSpec("P")
#: How the names of functions begin that state a label.
LABEL = re.compile(r"[ct]\d+(?=_)")
#: Rows of MIPs are stated in units of a power of two of ticks or bytes, such that right sides lie below this.
LARGEST_COEFFICIENT = 2**12

# Pyomo reports every exception of a rule as an error before it passes it on; that time is up is none.
logging.getLogger("pyomo.core").addFilter(lambda _: not isinstance(sys.exc_info()[1], Stop))


class Statement:
    """The labels that a model states: a function such as ``c3_triangle_reach`` is called through it, and noted as C3.

    ``labels`` are those that need no function: the variables' domains imply them, or they are separated on demand.
    """

    def __init__(self, *labels: str) -> None:
        self.labels = set(labels)

    def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns, which adds its rows to the model; its label is stated."""
        self._note(function)
        return function(*args, **kwargs)

    def where(self, needed: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """As a call, where ``needed``; elsewhere nothing is to be stated, so that the label counts as stated."""
        self._note(function)
        return function(*args, **kwargs) if needed else None

    def _note(self, function: Callable[..., Any]) -> None:
        if found := LABEL.match(function.__name__):
            self.labels.add(found[0].upper())


@dataclass(eq=False)
class Built:
    """The model of one instance (:class:`chipmap.family.Model`), stated to be solved alone.

    ``statement`` and ``scope`` say what it states, and of what: its standing follows. ``encode`` gives (variable,
    value) for the decision variables of a solution, None where the model can't hold it; ``decode`` reads the solution
    from a function that gives a variable's value. ``variables`` is what was added to a ``CpModel``, for further
    constraints; of a MIP they are the block's own components. ``stated_for`` says in words what was chosen before it
    was stated (degrees, a weight), where something was.
    """

    kind: Literal["mip", "cpsat"]
    instance: Any
    native: Any
    statement: Statement
    scope: Scope
    encode: Callable[[Any], list[tuple[Any, float]] | None]
    decode: Callable[[Callable[[Any], float]], Any]
    variables: Any = None
    stated_for: str = ""

    @property
    def lacking(self) -> frozenset[str]:
        """The labels in force that it doesn't state."""
        return family_of(self.instance).labels_in_force(self.instance) - self.statement.labels

    @property
    def standing(self) -> Standing:
        """What the model is worth for its instance."""
        return standing(self.scope, self.lacking)

    @property
    def assumptions(self) -> dict[str, Any]:
        """Of a CP-SAT model with labels ``assume``: the literal that enforces each label's constraints."""
        found: dict[str, Any] = self.variables.assumptions
        return found


def stated(kind: type[C], choices: C | Mapping[str, Any]) -> C:
    """The record of choices that is given, or that a mapping of its fields makes."""
    return kind(**choices) if isinstance(choices, Mapping) else choices


def require_empty(block: Any, function: str) -> None:
    """:class:`InputError` for a Pyomo block that has components (Pyomo would replace them with a warning)."""
    if next(iter(block.component_map()), None) is not None:
        remedy = "Give an empty pyo.Block() for each instance."
        raise InputError(f"block {block.name!r} already has components", function, remedy)


def unit(size: int) -> int:
    """The power of two by which rows of this size are divided (exactly: no cost is rounded)."""
    return 1 << max(0, -(-int(size) // LARGEST_COEFFICIENT) - 1).bit_length()
