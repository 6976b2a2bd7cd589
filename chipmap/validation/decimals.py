"""Numbers of an instance as its pages mean them: decimal text, exactly. The checkers' own reading of it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=10_000)
def written(value: float) -> Fraction:
    """The decimal number of fewest digits whose nearest float is ``value``: what a file says.

    >>> written(7.6), written(100)
    (Fraction(38, 5), Fraction(100, 1))
    """
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    assert isinstance(exponent, int)  # floats of instances are finite
    return whole * Fraction(10) ** exponent
