"""The fields of nodes and edges, by the names that people give them."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from chipmap.records import InputError

NODE = ("name", "flop", "bytes", "weights", "kind", "time_ns", "role", "inputs")
EDGE = ("source", "target", "bytes")
#: Other names of a field.
ALIASES = {
    "flops": "flop",
    "output_bytes": "bytes",
    "out_bytes": "bytes",
    "weight_bytes": "weights",
    "from": "source",
    "src": "source",
    "to": "target",
    "dst": "target",
}
#: How near to a field's name another one is a misspelling of it; farther off it is something else, and not used.
_NEAR = 0.7
#: More fields that mean nothing here aren't read: each is looked at for a misspelling.
MAX_UNKNOWN = 1_000


@dataclass(frozen=True)
class Columns:
    """Given name -> field, and the given names that mean nothing here."""

    fields: Mapping[Any, str]
    ignored: tuple[str, ...]


def columns(given: Iterable[Hashable], known: tuple[str, ...], where: str) -> Columns:
    """What the ``given`` names mean among the fields ``known``.

    Raises :class:`InputError` for a field given twice, and for a name so near to a field's that it is a slip.
    """
    fields: dict[Any, str] = {}
    ignored: list[str] = []
    for key in given:
        name = plain(key)
        field = ALIASES.get(name, name)
        if field not in known:
            near = _meant(name[:50], known)
            if near:
                raise InputError(f"no field is called {str(key)!r}", where, f"Did you mean {near}?")
            ignored.append(str(key))
            if len(ignored) > MAX_UNKNOWN:
                raise too_many(where)
        elif field in fields.values():
            raise InputError(f"{field} is given twice", where, f"Keep one {field} (other names of it count as well).")
        else:
            fields[key] = field
    return Columns(fields, tuple(ignored))


def too_many(where: str) -> InputError:
    """The error for a graph with too many unknown fields."""
    what = f"there are more than {MAX_UNKNOWN:,} fields that chipmap doesn't know"
    return InputError(what, where, f"Leave them out. The fields are: {', '.join(dict.fromkeys(NODE + EDGE))}.")


@lru_cache(maxsize=4096)  # each node of a graph has the same ones
def _meant(name: str, known: tuple[str, ...]) -> str:
    """The field that ``name`` is a misspelling of, or nothing."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)), "")


def plain(key: Hashable) -> str:
    """A field's name without spaces around it, in small letters."""
    return str(key).strip().lower()
