"""Pins of any family: what a file of them says, and how it gets into an instance.

The four fields have the same names in all families: ``pins`` (a thing must be at this place), ``forbidden`` (it must be
at none of these), ``together`` (these share a place), ``apart`` (no two of these share one). Each family has records of
its own for the first two, with its own words for thing and place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chipmap.records import InputError, Record, counted, nearest

FIELDS = ("pins", "forbidden", "together", "apart")
Group = tuple[str, ...]


@dataclass(frozen=True)
class PinFields:
    """The four fields as a file or a user says them; ``where`` names the source in errors.

    A place is what stands there: a text (a cell of a table, a value of JSON), a number, or, of places with several
    coordinates, a dict of these by name.
    """

    pins: tuple[tuple[str, Any], ...] = ()
    forbidden: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    together: tuple[Group, ...] = ()
    apart: tuple[Group, ...] = ()
    where: str = "pin"

    @property
    def words(self) -> str:
        """How many there are of each, in words; empty: none."""
        said: dict[str, tuple[Any, ...]] = {"pin": self.pins, "forbidden": self.forbidden}
        said |= {"group together": binding(self.together), "group apart": binding(self.apart)}
        plural = {"forbidden": "forbidden", "group together": "groups together", "group apart": "groups apart"}
        return ", ".join(counted(len(some), one, plural.get(one, "pins")) for one, some in said.items() if some)


@dataclass(frozen=True)
class PinRecords:
    """A family's words: ``thing``, the field of its records that names a thing; ``names`` of all things there are;
    ``pin``: (thing, place) -> its record; ``forbid``: (thing, places) -> its record."""

    thing: str
    names: Iterable[str]
    pin: Callable[[str, Any], Record]
    forbid: Callable[[str, tuple[Any, ...]], Record]


def with_pins(holder: Any, given: PinFields, records: PinRecords) -> Any:
    """``holder``, a record that has the four fields, with those ``given`` added; what it has already isn't repeated.

    Raises :class:`InputError` for a thing that there isn't, with near names, and for one that is pinned to two places.
    The records' functions raise it for places that there aren't.
    """
    known = list(records.names)
    _check_names(given, records.thing, set(known), known)
    pins = tuple(_said(given, records.pin, name, place) for name, place in given.pins)
    forbidden = tuple(_said(given, records.forbid, name, places) for name, places in given.forbidden)
    all_pins = tuple(dict.fromkeys((*holder.pins, *pins)))
    first: dict[str, Record] = {}
    for pin in all_pins:
        name = getattr(pin, records.thing)
        if first.setdefault(name, pin) != pin:
            both = " and ".join(_place(one, records.thing) for one in (first[name], pin))
            raise InputError(f"{name!r} is pinned to {both}", given.where, "Leave one of the two out.")
    more: dict[str, Any] = {"pins": all_pins, "forbidden": tuple(dict.fromkeys((*holder.forbidden, *forbidden)))}
    for name in ("together", "apart"):
        if groups := binding(getattr(given, name)):
            if not hasattr(holder, name):
                raise InputError(f"this family has no field `{name}`", given.where, "Leave it out.")
            more[name] = tuple(dict.fromkeys((*getattr(holder, name), *groups)))
    return holder.replace(**more)


def binding(groups: Iterable[Group]) -> tuple[Group, ...]:
    """The groups that ask for something: those of two names and more."""
    return tuple(group for group in groups if len(group) > 1)


def pin_counts(holder: Any) -> dict[str, int]:
    """How many entries each of the four fields of ``holder`` has that ask for something, where there are some."""
    said = {name: getattr(holder, name) for name in FIELDS}
    said |= {name: binding(said[name]) for name in ("together", "apart")}
    return {name: len(asked) for name, asked in said.items() if asked}


def check_apart(groups: Sequence[Group]) -> None:
    """:class:`InputError` for a group of ``apart`` that names something twice."""
    for i, group in enumerate(groups):
        twice = next((name for name in group if group.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{twice!r} is to be apart from itself", f"apart[{i}]", "Name it once in a group.")


def near_name(name: str, known: Iterable[str], otherwise: str = "Use a name from graph.operations.") -> str:
    """The remedy for a name that none of the ``known`` things has."""
    near = nearest(name, list(known))
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else otherwise


def _said(given: PinFields, made: Callable[[str, Any], Record], name: str, place: Any) -> Record:
    try:
        return made(name, place)
    except InputError as error:
        raise InputError(f"{name!r}: {error.what}", given.where, error.remedy) from None


def _place(pin: Record, thing: str) -> str:
    """Where a pin's record puts its thing: ``chip 3``, ``x 1, y 2``."""
    fields = {name: getattr(pin, name) for name in pin.__struct_fields__ if name != thing}
    return ", ".join(f"{name} {value!r}" for name, value in fields.items() if value is not None)


def _check_names(given: PinFields, thing: str, known: set[str], listed: list[str]) -> None:
    named = [name for name, _ in (*given.pins, *given.forbidden)]
    named += [name for group in (*given.together, *given.apart) for name in group]
    for name in named:
        if name not in known:
            raise InputError(
                f"no {thing} is called {name!r}", given.where, near_name(name, listed, "Use a name of the instance.")
            )
