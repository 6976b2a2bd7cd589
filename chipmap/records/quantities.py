"""Quantities in words: numbers, shares, times and sizes, each in the unit that suits it; what reads them is
:mod:`chipmap.records.amounts`."""

from __future__ import annotations

from math import ceil, floor, log10

from chipmap.records import Unit

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))


def number(value: float | None) -> str:
    """A value for people: seven significant digits, all those before the point, thousands apart; ``n/a`` for None.

    >>> number(1234.56789), number(0.5), number(123456789.0), number(None)
    ('1,234.568', '0.5', '123,456,789', 'n/a')
    """
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.7g}"


def in_unit(ticks: float, unit: Unit, digits: int = 6) -> str:
    """So many ticks in their unit, so many significant digits: ``1,234.5 us``."""
    return f"{number(float(f'{ticks * unit.per_tick:.{digits}g}'))} {unit.name}"


def percent(share: float | None) -> str:
    """A gap for people: ``0%`` only when it is zero, ``n/a`` when a side is missing.

    >>> percent(0.0), percent(0.0123), percent(1e-7), percent(None)
    ('0%', '1.23%', '<0.01%', 'n/a')
    """
    if share is None:
        return "n/a"
    if share == 0.0:
        return "0%"
    return f"{share:.2%}" if abs(share) >= 5e-5 else "<0.01%"


def share(part: float, whole: float = 1.0) -> str:
    """``part / whole`` in percent, three significant digits: ``12.3%``."""
    return f"{100 * part / whole:.3g}%" if whole else "n/a"


def at_most(part: float, whole: float) -> str:
    """``part / whole`` in percent, rounded up to three digits, so that what is said to be the most is."""
    percentage = 100 * part / whole if whole else 0.0
    if percentage <= 0:
        return "0%"
    scale = 10.0 ** (floor(log10(percentage)) - 2)
    return f"{ceil(percentage / scale - 1e-9) * scale:.4g}%"


def time_unit(ns: float) -> tuple[float, str]:
    """The unit that suits a time: how many ns it has, and its name."""
    return next((unit for unit in _TIMES if abs(ns) >= unit[0]), _TIMES[-1])


def duration(ns: float, digits: int = 6) -> str:
    """A time in the unit that suits it: ``49.1234 ms``."""
    scale, name = time_unit(ns)
    return f"{ns / scale:.{digits}g} {name}"


def size_unit(count: float) -> tuple[float, str]:
    """The unit that suits so many bytes: how many it has, and its name."""
    return next((unit for unit in _SIZES if count >= unit[0]), _SIZES[-1])


def size(count: float) -> str:
    """Bytes in the unit that suits them: ``1.5 GiB``."""
    scale, name = size_unit(count)
    return f"{count / scale:.4g} {name}"


def in_bytes(count: float) -> str:
    """Bytes, with the unit that suits them beside where they are many: ``2,097,152 bytes (2 MiB)``."""
    plain = f"{count:,.0f} bytes"
    return f"{plain} ({size(count)})" if count >= 2**20 else plain
