"""Amounts as people write them: ``4096``, ``1e6``, ``64MiB``, ``1.5 GFLOP``, ``20us``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chipmap.instances.decimals import exact
from chipmap.instances.importers.common import MAX_BYTES, MAX_NS
from chipmap.records import InputError, shown

#: More work than this is taken for a mistake.
MAX_FLOP = 10**18

_NUMBER = re.compile(
    r"([-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?)\s*([^\W\d_]*)"
)
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {f"{letter}i": 2 ** (10 * i) for i, letter in enumerate("kmgtp", start=1)}


@dataclass(frozen=True)
class Measure:
    """What is measured: its units (in small letters) as multiples of the unit of a number without one, and the most."""

    units: Mapping[str, Fraction]
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
        amount = self._of_text(text) if isinstance(text, str) else _of_number(text)
        if amount is None:
            raise InputError(f"{name} is {shown(value)}", where, f"Give a number: {self.example}.")
        if not 0 <= amount <= self.most:
            what = f"{name} is {shown(value)}: it runs from 0 to {self.most:.0e}"
            raise InputError(what, where, f"Give a number within these: {self.example}.")
        return amount

    def _of_text(self, text: str) -> Fraction | None:
        found = _NUMBER.fullmatch(text) if len(text) <= 100 else None
        unit = None if found is None else self.units.get(found[2].casefold())
        return None if found is None or unit is None else Fraction(re.sub("[_,]", "", found[1])) * unit


def _of_number(value: Any) -> Fraction | None:
    """A finite number, a whole one of any size; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return Fraction(value)
    return exact(value) if math.isfinite(value) else None


def _units(word: str, prefixes: Mapping[str, int]) -> dict[str, Fraction]:
    return {f"{prefix}{unit}": Fraction(factor) for prefix, factor in prefixes.items() for unit in ("", word)}


FLOP = Measure(
    _units("flop", _DECIMAL) | _units("flops", _DECIMAL), MAX_FLOP, "operations, such as 2000000, 2e6 or 2MFLOP"
)
BYTES = Measure(_units("b", _DECIMAL | _BINARY), MAX_BYTES, "bytes, such as 4096, 1e6, 64KiB or 1.5MB")
TIME = Measure(
    {"": Fraction(1), "ns": Fraction(1), "us": Fraction(1000), "μs": Fraction(1000), "ms": Fraction(10**6)}
    | {"s": Fraction(10**9)},
    MAX_NS,
    "nanoseconds, such as 1500, 1.5e3 or 1.5us",
)
