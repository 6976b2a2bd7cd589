"""Quantities in words: numbers, shares, times and sizes, each in the unit that suits it; what reads them is
:mod:`chipmap.records.amounts`."""

from __future__ import annotations

from decimal import Decimal
from math import ceil, floor, log10

from chipmap.records import Unit, counted

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
#: Prefixes of units by falling size, a thousandth each; what is below the first of them has none of ours.
_PREFIXES = ("", "m", "u", "n", "p", "f", "a")
#: Units that take a prefix.
_SCALED = ("s", "J", "J·s")
#: Below this much of its unit, an amount is told in a smaller one.
_SMALL = 1e-3
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))


def number(value: float | None) -> str:
    """A value for people: seven significant digits, all those before the point, thousands apart; ``n/a`` for None.

    >>> number(1234.56789), number(0.5), number(123456789.0), number(None)
    ('1,234.568', '0.5', '123,456,789', 'n/a')
    """
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.7g}"


def smaller(value: float | None, name: str, least: float = _SMALL) -> tuple[int, str]:
    """(n, unit): ``value`` of unit ``name`` is ``value · 1000 ** n`` of that unit, where it is no longer below 1; only
    values below ``least`` get another unit.

    >>> smaller(1.5e-05, "ms"), smaller(4e-8, "J·s"), smaller(3.0, "ms"), smaller(1e-9, "chips")
    ((2, 'ns'), (3, 'nJ·s'), (0, 'ms'), (0, 'chips'))
    """
    written = name.replace("\N{GREEK SMALL LETTER MU}", "u").replace("\N{MICRO SIGN}", "u")
    base = next((one for one in _SCALED if written.removesuffix(one) in _PREFIXES and written.endswith(one)), None)
    if base is None or not value or abs(value) >= least:
        return 0, name
    first = place = _PREFIXES.index(written.removesuffix(base))
    while abs(value) * 1000.0 ** (place - first) < 1 and place + 1 < len(_PREFIXES):
        place += 1
    return place - first, f"{_PREFIXES[place]}{base}"


def suited(ticks: float | None, unit: Unit) -> Unit:
    """The unit in which so many ticks are told: ``unit``, or a smaller one of its kind for less than a thousandth."""
    steps, name = smaller(None if ticks is None else ticks * unit.per_tick, unit.name)
    return Unit(name=name, per_tick=float(Decimal(repr(unit.per_tick)) * 1000**steps)) if steps else unit


def in_unit(ticks: float, unit: Unit, digits: int = 6) -> str:
    """So many ticks in their unit or, where they are few, a smaller one; so many significant digits: ``1,234.5 us``."""
    unit = suited(ticks, unit)
    return f"{number(float(f'{ticks * unit.per_tick:.{digits}g}'))} {unit.name}"


def told(value: float | None, name: str) -> str:
    """A value with its unit for people, a smaller one where it is small: ``15 ns`` for 1.5e-05 ms."""
    steps, unit = smaller(value, name)
    return f"{number(None if value is None else value * 1000**steps)} {unit}"


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
    return f"{count / scale:.4g} {'byte' if count == 1 else name}"


def in_bytes(count: float) -> str:
    """Bytes, with the unit that suits them beside where they are many: ``2,097,152 bytes (2 MiB)``."""
    plain = counted(round(count), "byte")
    return f"{plain} ({size(count)})" if count >= 2**20 else plain
