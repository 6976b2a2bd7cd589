"""The amounts of a graph's rows: work, bytes and times, as numbers or with units (``64MiB``, ``1.5 GFLOP``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chipmap.networks.importers.common import MAX_BYTES, MAX_NS
from chipmap.records import InputError, amounts, shown
from chipmap.records.decimals import exact

#: More work than this is taken for a mistake.
MAX_FLOP = 10**18


@dataclass(frozen=True)
class Measure:
    """What is measured: its kind, the unit of a number without one with how many of them the kind counts, the most."""

    kind: amounts.Kind
    plain: str
    per_plain: int
    most: int
    example: str

    def read(self, value: Any, name: str, where: str) -> Fraction | None:
        """The amount, in the unit of a plain number; None where nothing is given (None, an empty cell, NaN).

        Raises :class:`InputError` for what is no number, has another unit, is negative or too large.
        """
        value = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
        text = value.strip() if isinstance(value, str) else value
        if text is None or text == "" or (isinstance(text, float) and math.isnan(text)):
            return None
        if isinstance(text, str):
            amounts.no_doubt(text, where, name)
        found = amounts.quantity(text, self.kind, self.plain) if isinstance(text, str) else None
        amount = found * self.per_plain if found is not None else _of_number(text)
        if amount is None:
            raise InputError(f"{name} is {shown(value)}", where, f"Give a number: {self.example}.")
        if not 0 <= amount <= self.most:
            what = f"{name} is {shown(value)}: it runs from 0 to {self.most:.0e}"
            raise InputError(what, where, f"Give a number within these: {self.example}.")
        return amount


def _of_number(value: Any) -> Fraction | None:
    """A finite number, a whole one of any size; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return Fraction(value)
    return exact(value) if math.isfinite(value) else None


FLOP = Measure("flop", "flop", 1, MAX_FLOP, "operations, such as 2000000, 2e6 or 2MFLOP")
BYTES = Measure("bytes", "B", 1, MAX_BYTES, "bytes, such as 4096, 1e6, 64KiB or 1.5MB")
TIME = Measure("seconds", "ns", 10**9, MAX_NS, "nanoseconds, such as 1500, 1.5e3 or 1.5us")
