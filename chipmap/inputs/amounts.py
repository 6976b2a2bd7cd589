"""Numbers, sizes and times as people write them: ``64MiB``, ``2min``, ``1e6``, ``1,000``, ``5%``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Literal

from chipmap.records import InputError

Kind = Literal["bytes", "seconds"]

_AMOUNT = re.compile(r"([+-]?(?:\d[\d_]*(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-zµ%][A-Za-zµ/]*)?")
#: Unit -> (what it measures, how many bytes or seconds it is).
UNITS: dict[str, tuple[Kind, Fraction]] = {
    **{unit: ("bytes", Fraction(1)) for unit in ("B", "byte", "bytes")},
    **{f"{p}B": ("bytes", Fraction(1000) ** i) for i, p in enumerate(("k", "M", "G", "T", "P"), 1)},
    **{f"{p}iB": ("bytes", Fraction(1024) ** i) for i, p in enumerate(("K", "M", "G", "T", "P"), 1)},
    **{f"{p}s": ("seconds", Fraction(1, 1000**i)) for i, p in enumerate(("", "m", "u", "n", "p"))},
    "µs": ("seconds", Fraction(1, 10**6)),
    "sec": ("seconds", Fraction(1)),
    "min": ("seconds", Fraction(60)),
    "h": ("seconds", Fraction(3600)),
}
_BY_LOWER = {unit.lower(): known for unit, known in UNITS.items()}
#: How the name of a field ends -> the unit of its values.
_FIELDS = {
    **{"bytes": "B", "kib": "KiB", "mib": "MiB", "gib": "GiB", "kb": "kB", "mb": "MB", "gb": "GB"},
    **{"ps": "ps", "ns": "ns", "us": "us", "ms": "ms", "s": "s", "seconds": "s"},
}
_RATE = "bytes_per_ns"
_MOST = 2**63
_REMEDY = "Sizes are written 64MiB or 1.5GB, times 500ms, 30s, 2min or 1h."


def amount(text: str) -> tuple[Fraction, str] | None:
    """The number and the unit ("" for none) that ``text`` holds; None where it is no amount.

    >>> amount("64MiB"), amount("1,000"), amount("mask")
    ((Fraction(64, 1), 'MiB'), (Fraction(1000, 1), ''), None)
    """
    match = _AMOUNT.fullmatch(text.strip()) if len(text) < 100 else None
    if match is None:
        return None
    return Fraction(match[1].replace(",", "").replace("_", "")), match[2] or ""


def measured(text: str, kind: Kind, plain: str, where: str) -> Fraction:
    """``text`` in bytes or seconds; a number without unit counts in ``plain``. :class:`InputError` otherwise."""
    found = amount(text)
    unit = None if found is None else _unit(found[1] or plain)
    if found is None or unit is None or unit[0] != kind:
        what = "a size" if kind == "bytes" else "a time"
        raise InputError(f"{text!r} is not {what}", where, f"{_REMEDY} A number alone counts in {plain}.")
    return found[0] * unit[1]


def in_field(text: str, name: str, where: str) -> Fraction | None:
    """``text`` as a number in the unit that the field's ``name`` ends in (``sram_bytes``, ``hop_ns``); None where it is
    no amount. :class:`InputError` where its unit doesn't fit."""
    found = amount(text)
    if found is None or not found[1]:
        return None if found is None else found[0]
    number, written = found
    if written == "%":
        return number / 100
    over, _, under = written.partition("/")
    end = name.rpartition("_")[2]
    own = (
        ("B", "ns") if name.endswith(_RATE) else (_FIELDS[end], "") if end in _FIELDS and "_per_" not in name else None
    )
    if own is None:
        raise InputError(f"{text!r} has a unit, but {name} has none that is known", where, "Give a number alone.")
    factor = Fraction(1)
    for mine, its, power in ((over, own[0], 1), (under, own[1], -1)):
        left, right = _unit(mine) if mine else None, _unit(its) if its else None
        if bool(mine) != bool(its) or (mine and (left is None or right is None or left[0] != right[0])):
            unit = "/".join(filter(None, own))
            raise InputError(f"{text!r} doesn't fit {name}", where, f"It counts in {unit}. {_REMEDY}")
        if left is not None and right is not None:
            factor *= (left[1] / right[1]) ** power
    return number * factor


def whole(text: str, where: str) -> int:
    """The whole number that ``text`` says: ``7``, ``1e6``, ``1,000``. :class:`InputError` otherwise."""
    found = amount(text)
    if found is None or found[1] or found[0].denominator != 1:
        raise InputError(f"{text!r} is not a whole number", where, "Write it as 7, 1,000 or 1e6.")
    return int(found[0])


def share(text: str, where: str) -> float:
    """The share that ``text`` says: ``0.01`` or ``1%``. :class:`InputError` otherwise."""
    found = amount(text)
    if found is None or found[1] not in ("", "%"):
        raise InputError(f"{text!r} is not a share", where, "Write it as 0.01 or 1%.")
    return float(found[0] / (100 if found[1] else 1))


def _unit(name: str) -> tuple[Kind, Fraction] | None:
    """What a unit measures and how much it is; upper and lower case matter only where both are units."""
    return UNITS.get(name) or _BY_LOWER.get(name.lower())


def scalar(value: Any, text: str, name: str, where: str, integer: bool) -> Any:
    """``value`` (what JSON makes of ``text``) as a number for the field ``name``; ``integer``: a whole one."""
    if isinstance(value, bool | list | dict) or value is None or type(value) is int:
        return value
    if isinstance(value, float) and not integer:
        return value
    number = in_field(text if isinstance(value, float) else value, name, where)
    if number is None:
        kind = "a whole number" if integer else "a number"
        raise InputError(f"{text!r} is not {kind}", where, f"Write it as 7, 1,000 or 1e6. {_REMEDY}")
    if abs(number) >= _MOST:
        small, most = number < 0, f"{_MOST:,}"
        what = f"{text!r} is too {'small' if small else 'large'}"
        raise InputError(what, where, f"Give more than -{most}." if small else f"Give less than {most}.")
    if integer and number.denominator != 1:
        raise InputError(f"{text!r} is not a whole number", where, f"{name} takes none but whole numbers.")
    return int(number) if number.denominator == 1 else float(number)
