"""JSON in which an object has a key twice: readers take the last one without a word."""

from __future__ import annotations

import json
from typing import Any

from chipmap.records import InputError


class _Repeats(dict[str, Any]):
    """An object that JSON gave the key ``key`` more than once."""

    key = ""


def refuse_repeats(data: bytes | str, where: str) -> None:
    """Refuse such JSON: :class:`InputError` names the key and the place. What is no JSON is left to its reader."""
    found: list[_Repeats] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            found.append(_Repeats(made))
            keys = [key for key, _ in pairs]
            found[-1].key = next(key for key in keys if keys.count(key) > 1)
            return found[-1]
        return made

    try:
        whole = json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return
    left: list[tuple[str, Any]] = [("", whole)] if found else []
    while left:
        path, value = left.pop()
        if isinstance(value, _Repeats):
            place = ": ".join(part for part in (where, path) if part)
            raise InputError(f"has the key {value.key!r} twice", place, "Keep the one that you mean.")
        if isinstance(value, dict):
            left += [(f"{path}.{key}" if path else key, inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}[{i}]", inner) for i, inner in enumerate(value)]
