"""Calls of operators, as the formulas of costs see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chipmap.networks.importers.steps import Value


@dataclass(frozen=True)
class Call:
    """An operator with the tensors that it reads (None for an optional one that is left out) and makes."""

    kind: str
    read: Sequence[Value | None]
    made: Sequence[Value]
    arguments: Mapping[str, Any]

    def operand(self, i: int) -> Value:
        """Operand ``i``; :class:`LookupError` if it isn't there."""
        value = self.read[i] if i < len(self.read) else None
        if value is None:
            raise LookupError(i)
        return value

    @property
    def operands(self) -> list[Value]:
        """All operands that are there."""
        return [value for value in self.read if value is not None]

    @property
    def result(self) -> Value:
        """The first result; :class:`LookupError` if there is none."""
        return self.made[0]


#: FLOP, or bytes, of a call; raises :class:`LookupError` for one that the formula doesn't fit.
Count = Callable[[Call], int]


def ranked(value: Value, rank: int) -> Value:
    """The value; :class:`LookupError` if it has fewer dimensions than ``rank``."""
    if len(value.shape) < rank:
        raise LookupError
    return value
