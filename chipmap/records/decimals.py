"""Rates, times and shares as they are written: 0.37 is 37/100, not the binary number next to it.

A JSON number arrives as the nearest binary float. Its shortest decimal text is the number that was written (up to 15
digits always), and costs are rounded up from that, exactly.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=10_000)
def exact(value: float) -> Fraction:
    """A number as it is written.

    >>> exact(0.37), exact(64.0), exact(1e-7)
    (Fraction(37, 100), Fraction(64, 1), Fraction(1, 10000000))
    """
    return Fraction(repr(float(value)))


#: An objective of so many ticks is coarse: one of them is a ten-thousandth of it. In larger ones, what rounding may add
#: counts from a thousandth on.
FEW_TICKS, SHARE = 10**4, 1000


def negligible(costs: int, objective: int) -> bool:
    """Whether so many costs, each rounded up by less than a tick, add next to nothing to the objective."""
    return objective >= FEW_TICKS and costs * SHARE < objective
