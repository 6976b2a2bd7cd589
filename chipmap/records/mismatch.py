"""What msgspec says of data that don't fit a type, in our words: the place, what is wrong, and what there is to choose.

msgspec gives sentences only (``Expected `int`, got `null` - at `$.package.chips```); here they are taken apart. A
sentence that is none of these (another version's) is passed on as it stands.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_KIND = r"Expected `([^`]+)`"
_SIGNS = {">=": "{0} or more", "<=": "{0} or less", ">": "more than {0}", "<": "less than {0}"}


class Mismatch(NamedTuple):
    """Where in the data something is wrong (``package.chips``; "" for all of it), what, and what would fit.

    ``remedy`` is a sentence, or "" where none is known. ``name`` and ``names``: a name that isn't known, and those that
    are (``fields`` of a record, or values of a choice).
    """

    path: str
    what: str
    remedy: str = ""
    name: str = ""
    names: tuple[str, ...] = ()
    fields: bool = False


def mismatch(message: str, hint: Any, value: str = "") -> Mismatch:
    """The mismatch that msgspec's ``message`` tells of data of the type ``hint``; ``value``: the data, where short.

    >>> mismatch("Expected `int | null`, got `str` - at `$.package.chips`", int)[:2]
    ('package.chips', 'is text, not a whole number or null')
    >>> mismatch("Expected `int` >= 1", int, "0")[:3]
    ('', 'is 0', 'Give a whole number: 1 or more.')
    """
    said, inner, of_key = _placed(message)
    path, value = inner.removeprefix("."), "" if inner else value
    if found := re.fullmatch(_KIND + r", got `([^`]+)`", said):
        return Mismatch(path, f"is {_given(found[2], found[1])}, not {_nouns(found[1])}")
    if found := re.fullmatch(_KIND + r" (>=|<=|>|<) (\S+)", said):
        what = f"is {value}" if value else "is out of range"
        return Mismatch(path, what, f"Give {_nouns(found[1])}: {_SIGNS[found[2]].format(_number(found[3]))}.")
    if found := re.fullmatch(_KIND + r" of length (?:(>=|<=|>|<) )?(\d+).*", said):
        many = _SIGNS[found[2]].format(found[3]) if found[2] else found[3]
        noun = "characters" if found[1] == "str" else "entries"
        return Mismatch(path, f"is {value}" if value else f"has another number of {noun}", f"Give {many} {noun}.")
    if found := re.fullmatch(r"Object missing required field `(.+)`", said):
        return Mismatch(f"{path}.{found[1]}" if path else found[1], "is missing")
    if found := re.fullmatch(r"Object contains unknown field `(.+)`", said):
        return Mismatch(path, f"there is no field {found[1]!r}", "", found[1], _fields(_type_at(hint, inner)), True)
    if found := re.fullmatch(r"Invalid enum value (.+)", said):
        kind = _type_at(hint, inner)
        what = f"has a key {found[1]}" if of_key else f"is {found[1]}"
        return Mismatch(path, what, "", found[1].strip("'\""), _values(_solid(kind).key_type if of_key else kind))
    if said in ("Number out of range", "Integer out of range", "Integer value out of range"):
        return Mismatch(path, "is too large")
    return Mismatch(path, said)


def _placed(message: str) -> tuple[str, str, bool]:
    """What is said, the path of the place, and whether it is said of a key there."""
    said, _, place = message.rpartition(" - at ")
    path = place.removeprefix("`key` in ")
    if not (path.startswith("`$") and path.endswith("`") and len(path) > 2):
        return message, "", False
    return said, path[2:-1], path != place


def _nouns(kinds: str) -> str:
    return " or ".join(_NOUNS.get(kind, kind) for kind in kinds.split(" | "))


def _given(kind: str, expected: str) -> str:
    """What is there instead; a fraction where whole numbers are wanted is called one."""
    fraction = kind == "float" and "int" in expected.split(" | ")
    return "a fraction" if fraction else _NOUNS.get(kind, kind)


def _number(text: str) -> str:
    """A limit as people write it: 9,007,199,254,740,992, but 0.5 as it stands."""
    return f"{int(text):,}" if re.fullmatch(r"-?\d+", text) else text.removesuffix(".0")


def _type_at(hint: Any, path: str) -> Any:
    """The type at a JSON path (``.graph.operations[0]``) below ``hint``."""
    from msgspec import inspect

    kind: Any = inspect.type_info(hint)
    for name, item in re.findall(r"\.(\w+)|\[([^][]*)\]", path):
        kind = _solid(kind)
        if name:
            kind = next((field.type for field in getattr(kind, "fields", ()) if field.encode_name == name), kind)
        elif item.isdecimal() and len(getattr(kind, "item_types", ())) > int(item):
            kind = kind.item_types[int(item)]
        else:
            kind = getattr(kind, "item_type", None) or getattr(kind, "value_type", kind)
    return kind


def _solid(kind: Any) -> Any:
    """A type without its "or null", or what else it may be than a record, a list or an object."""
    inner = ("fields", "item_type", "item_types", "value_type")
    return next((one for one in getattr(kind, "types", ()) if any(hasattr(one, name) for name in inner)), kind)


def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.encode_name for field in getattr(_solid(kind), "fields", ()))


def _values(kind: Any) -> tuple[str, ...]:
    """The values of a choice."""
    return tuple(str(value) for one in (kind, *getattr(kind, "types", ())) for value in getattr(one, "values", ()))
