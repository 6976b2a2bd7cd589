"""Numbers, sizes, times and work as people write them: ``64MiB``, ``2min``, ``1.5 GFLOP``, ``1e6``, ``1k``, ``5%``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Literal

from chipmap.records import InputError

Kind = Literal["number", "bytes", "seconds", "flop"]

_AMOUNT = re.compile(
    r"([+-]?(?:\d[\d_]*(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(%|[^\W\d_][^\W\d_/]*(?:/[^\W\d_]+)?)?"
)
#: Bits by the letter: a large prefix before a small b.
_BITS = re.compile(r"([+]?(?:\d+(?:\.\d*)?|\.\d+))\s*([KMGTP]i?)b((?:/[^\W\d_]+)?)")
_DECIMAL = {"": 1, **{prefix: 1000**i for i, prefix in enumerate("kmgtp", 1)}}
_BINARY = {f"{prefix}i": 1024**i for i, prefix in enumerate("kmgtp", 1)}
#: Unit, as ``casefold`` writes it -> (what it measures, how many bytes, seconds or operations it is). A prefix alone
#: is a number, which counts bytes and operations as well.
_UNITS: dict[str, tuple[Kind, Fraction]] = {
    **{prefix: ("number", Fraction(factor)) for prefix, factor in (_DECIMAL | _BINARY).items()},
    **{f"{prefix}b": ("bytes", Fraction(factor)) for prefix, factor in (_DECIMAL | _BINARY).items()},
    **{f"{prefix}{unit}": ("flop", Fraction(n)) for prefix, n in _DECIMAL.items() for unit in ("flop", "flops")},
    **{f"{prefix}s": ("seconds", Fraction(1, 1000**i)) for i, prefix in enumerate(("", "m", "u", "n", "p"))},
    **{unit: ("bytes", Fraction(1)) for unit in ("byte", "bytes")},
    **{unit: ("seconds", Fraction(n)) for unit, n in (("sec", 1), ("min", 60), ("h", 3600))},
    "\N{GREEK SMALL LETTER MU}s": ("seconds", Fraction(1, 10**6)),
}
#: How the name of a field ends -> the unit of its values.
_FIELDS = {
    **{"bytes": "B", "kib": "KiB", "mib": "MiB", "gib": "GiB", "kb": "kB", "mb": "MB", "gb": "GB", "flop": "FLOP"},
    **{"ps": "ps", "ns": "ns", "us": "us", "ms": "ms", "s": "s", "seconds": "s"},
}
#: How the name of a rate ends -> its unit.
_RATES = {"bytes_per_ns": ("B", "ns"), "flop_per_ns": ("FLOP", "ns")}
#: A decimal comma, and what surrounds it. Three digits behind the comma are thousands.
_COMMA = re.compile(r"([+-]?\d{1,15}),(\d{1,2}|\d{4,15})(\s*[^\W\d_]{0,8}(?:/[^\W\d_]{1,8})?)")
_MOST = 2**63
_REMEDY = "Sizes are written 64MiB or 1.5GB, times 500ms, 30s, 2min or 1h."


def amount(text: str) -> tuple[Fraction, str] | None:
    """The number and the unit ("" for none) that ``text`` holds; None where it is no amount.

    >>> amount("64MiB"), amount("1,000"), amount("mask")
    ((Fraction(64, 1), 'MiB'), (Fraction(1000, 1), ''), None)
    """
    match = _AMOUNT.fullmatch(text.strip()) if len(text) <= 100 else None
    if match is None:
        return None
    return Fraction(match[1].replace(",", "").replace("_", "")), match[2] or ""


def quantity(text: str, kind: Kind, plain: str) -> Fraction | None:
    """``text`` in bytes, seconds, operations or, for ``number``, ones; None where it is no such amount. A number
    without unit counts in ``plain`` ("" for ones).

    >>> [str(quantity(*given)) for given in (("1k", "bytes", "B"), ("2min", "seconds", "ns"), ("3", "seconds", "ms"))]
    ['1000', '120', '3/1000']
    """
    found = amount(text)
    unit = None if found is None else _unit(found[1] or plain)
    if found is None or unit is None or unit[0] not in _taken((kind, Fraction(1))):
        return None
    return found[0] * unit[1]


def measured(text: str, kind: Kind, plain: str, where: str) -> Fraction:
    """``text`` in bytes or seconds; a number without unit counts in ``plain``. :class:`InputError` otherwise."""
    no_doubt(text, where)
    found = quantity(text, kind, plain)
    if found is None:
        what = "a size" if kind == "bytes" else "a time"
        raise InputError(f"{text!r} is not {what}", where, f"{_REMEDY} A number alone counts in {plain}.")
    return found


def in_field(text: str, name: str, where: str) -> Fraction | None:
    """``text`` as a number in the unit that the field's ``name`` ends in (``sram_bytes``, ``hop_ns``); None where it is
    no amount. :class:`InputError` where its unit doesn't fit."""
    no_doubt(text, where)
    found = amount(text)
    if found is None or not found[1]:
        return None if found is None else found[0]
    number, written = found
    if written == "%":
        return number / 100
    over, _, under = written.partition("/")
    end = name.rpartition("_")[2]
    rate = next((unit for ending, unit in _RATES.items() if name.endswith(ending)), None)
    known = rate is not None or (end in _FIELDS and "_per_" not in name)
    own = rate or (_FIELDS[end] if known else "", "")
    if own[0] == "FLOP" and rate and written.casefold().endswith("flops"):
        under = "s"  # TFLOPS, a rate in one word
    mine, divisor = _unit(over), _unit(under)
    if not known and (mine is None or mine[0] != "number" or under):
        raise InputError(f"{text!r} has a unit, but {name} has none that is known", where, "Give a number alone.")
    its, per = _unit(own[0]), _unit(own[1])
    fits = mine is not None and its is not None and mine[0] in _taken(its) and bool(under) == bool(own[1])
    if mine is None or its is None or not fits or divisor is None or per is None or divisor[0] != per[0]:
        unit = "/".join(filter(None, own))
        how = "Rates are written 25GB/s or 300TFLOP/s." if rate else _REMEDY
        raise InputError(f"{text!r} doesn't fit {name}", where, f"It counts in {unit}. {how}")
    return number * mine[1] / its[1] * per[1] / divisor[1]


def whole(text: str, where: str) -> int:
    """The whole number that ``text`` says: ``7``, ``1e6``, ``1,000``, ``1k``. :class:`InputError` otherwise."""
    found = quantity(text, "number", "")
    if found is None or found.denominator != 1:
        raise InputError(f"{text!r} is not a whole number", where, "Write it as 7, 1,000 or 1e6.")
    return int(found)


def share(text: str, where: str) -> float:
    """The share that ``text`` says: ``0.01`` or ``1%``. :class:`InputError` otherwise."""
    found = amount(text)
    if found is None or found[1] not in ("", "%"):
        raise InputError(f"{text!r} is not a share", where, "Write it as 0.01 or 1%.")
    return float(found[0] / (100 if found[1] else 1))


def no_doubt(text: str, where: str, name: str = "") -> None:
    """Ask back for ``64Mb``: bits by the letter, but bytes may be meant. :class:`InputError` names both.

    For ``1,5GiB`` too, which the error writes with a point. ``name``: the field, where ``where`` doesn't tell it.
    """
    given = f"{name} is {text!r}, which" if name else repr(text)
    comma = _COMMA.fullmatch(text.strip()) if len(text) <= 100 else None
    if comma is not None:
        raise InputError(f"{given} has a decimal comma", where, f"Write {comma[1]}.{comma[2]}{comma[3]}.")
    found = _BITS.fullmatch(text.strip()) if len(text) <= 100 else None
    if found is not None:
        number, prefix, rest = found[1], found[2], found[3] or ""
        eighth = f"{float(Fraction(number) / 8):g}{prefix}B{rest}"
        what = f"{given} may be bits or bytes"
        raise InputError(what, where, f"Write {number}{prefix}B{rest} for bytes, or {eighth} for so many bits.")


def _unit(name: str) -> tuple[Kind, Fraction] | None:
    """What a unit measures and how much it is; upper and lower case are alike."""
    return _UNITS.get(name.casefold())


def _taken(unit: tuple[Kind, Fraction]) -> tuple[Kind, ...]:
    """The kinds of amounts that a field in this unit takes: a prefix alone only beside bytes, operations or ones."""
    kind, size = unit
    return (kind, "number") if kind in ("bytes", "flop") and size == 1 else (kind,)


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
