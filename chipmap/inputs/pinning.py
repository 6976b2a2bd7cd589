"""Pins from a file, from a dict or from a plan, merged into an instance (``--pin`` and ``pin=``)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import FAMILY_NAMES, Family, family_of, get_family, resolve
from chipmap.inputs.reading import checked, source_of
from chipmap.instances.pinning import FIELDS, PinFields
from chipmap.records import InputError, Record, choices
from chipmap.records.repeats import refuse_repeats

#: A file (or ``-``), the four fields or pins as a dict, or several of these.
GivenPins = str | Path | Mapping[str, Any] | PinFields | Sequence[str | Path | Mapping[str, Any] | PinFields]
#: What a column of things, or of their places, may be called.
THINGS = ("name", "operation", "kernel", "layer")
PLACES = ("place", "chip", "device", "chiplet", "partition")
#: Columns that tell a place by its parts.
COORDINATES = ("x", "y", "width", "height")
_REMEDY = "Give a table with the columns name and place, JSON with pins, forbidden, together and apart, or a plan."


@dataclass(frozen=True)
class Pinned:
    """An instance with pins merged into it, and what there is to say of that (empty: nothing was pinned)."""

    instance: Record
    note: str = ""


def pinned(instance: Record, given: GivenPins | None) -> Pinned:
    """``instance`` with what ``given`` pins (None: as it is), checked.

    Raises :class:`InputError` for what is no file of pins, for unknown names, with near ones, and for contradictions.
    """
    notes = []
    for one in [] if given is None else _several(given):
        made, words, where = _merged(instance, one)
        if made != instance:
            instance = checked(made, where)
            notes.append(f"{where} ({words})")
    note = f"pins bind: what {' and '.join(notes)} says is kept, so without it the objective may be lower"
    return Pinned(instance, note if notes else "")


@dataclass(frozen=True)
class Hint:
    """What a file says of a start that it leaves open in part: ``pinned``, the instance whose mappings keep to it,
    ``covered``, how much that is, ``finish``: (a mapping of ``pinned``) -> that of the instance (None: as it is)."""

    pinned: Record
    covered: str
    finish: Callable[[Any], Any] | None = None


def hinted(source: str, instance: Record) -> Hint | None:
    """What the file ``source`` pins of a start; None where it is no file of pins, or says all of a mapping."""
    family = family_of(instance)
    opened = source_of(source) if Path(source).is_file() else None
    if opened is None or not (family.merge_pins or family.plan_formats):
        return None
    data, where = opened.content(), opened.where
    fields = _fields_in_json(data, where) if family.merge_pins else None
    if fields is None and resolve("chipmap.plans.reading:recognised")(data, where, instance) is not None:
        _, plan = resolve("chipmap.plans.reading:read_plan")(data, where, instance)
        return Hint(plan.pinned, plan.covered, plan.finish) if plan.solution is None else None
    if fields is None and family.merge_pins and not family.plan_formats and _is_table(data):
        fields = _in_table(data, where)
    if fields is None:
        return None
    return Hint(checked(resolve(family.merge_pins)(instance, fields), where), fields.words)


def _several(given: GivenPins) -> Sequence[str | Path | Mapping[str, Any] | PinFields]:
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _merged(instance: Record, given: str | Path | Mapping[str, Any] | PinFields) -> tuple[Record, str, str]:
    """The instance with the pins, what they are in words, and what they are called."""
    family = _pinning(family_of(instance))
    if isinstance(given, Mapping):
        given = fields_of(given, "pin")
    if not isinstance(given, PinFields):
        source = source_of(str(given))
        data, where = source.content(), source.where
        found = _fields_in_json(data, where) or _in_plan(instance, data, where) or _in_table(data, where)
        if isinstance(found, Record):
            return found, "a plan", where
        given = found
    return resolve(family.merge_pins)(instance, given), given.words, given.where


def _pinning(family: Family) -> Family:
    if not family.merge_pins:
        those = ", ".join(name for name in FAMILY_NAMES if get_family(name).merge_pins)
        raise InputError(f"instances of family {family.name!r} take no pins", "--pin", f"Families that do: {those}.")
    return family


def _in_plan(instance: Record, data: bytes, where: str) -> PinFields | Record | None:
    """What a plan pins: its places, or the instance that keeps to it; None: the file is in no format of plans."""
    family = family_of(instance)
    if not family.plan_formats or resolve("chipmap.plans.reading:recognised")(data, where, instance) is None:
        return None
    _, plan = resolve("chipmap.plans.reading:read_plan")(data, where, instance)
    if plan.places is not None:
        return PinFields(pins=tuple(plan.places.items()), where=where)
    if plan.pinned is None:
        raise InputError("is a plan that pins nothing", where, "Give it as --warm-start.")
    found: Record = plan.pinned
    return found


def _fields_in_json(data: bytes, where: str) -> PinFields | None:
    """The four fields in JSON; None where it is no object that has one of them."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", where, _REMEDY) from None
    refuse_repeats(data, where)
    named = isinstance(plain, dict) and any(isinstance(plain.get(name), list | dict) for name in FIELDS)
    return fields_of(plain, where) if named and "schema" not in plain else None


def fields_of(given: Mapping[str, Any], where: str) -> PinFields:
    """The four fields as plain data, or pins alone, thing -> place. ``pins`` and ``forbidden`` are lists of records as
    the family's instances have them, or dicts of thing -> place, thing -> places."""
    if given and not any(name in FIELDS for name in given) and all(map(_is_place, given.values())):
        given = {"pins": given}
    for name in given:
        if name not in FIELDS:
            raise InputError(f"no field of pins is called {name!r}", where, choices(str(name), FIELDS, "There are"))
    forbidden = []
    for name, places in _pairs(given.get("forbidden", ()), f"{where}: forbidden"):
        forbidden.append((name, tuple(places) if isinstance(places, list | tuple) else (places,)))
    return PinFields(
        pins=tuple(_pairs(given.get("pins", ()), f"{where}: pins")),
        forbidden=tuple(forbidden),
        together=_groups(given.get("together", ()), f"{where}: together"),
        apart=_groups(given.get("apart", ()), f"{where}: apart"),
        where=where,
    )


def _is_place(one: Any) -> bool:
    """Whether that can be a place: a name, a number, or coordinates; no field of pins is any of these."""
    return isinstance(one, str | int) or (isinstance(one, Mapping) and bool(one) and set(one) <= set(COORDINATES))


def _pairs(given: Any, where: str) -> list[tuple[str, Any]]:
    """(thing, place) of each: from a dict, or from objects whose first known key names the thing."""
    if isinstance(given, Mapping):
        return [(str(name), place) for name, place in given.items()]
    found = []
    for one in given if isinstance(given, list | tuple) else [given]:
        one = msgspec.to_builtins(one) if isinstance(one, Record) else one
        one = one if isinstance(one, Mapping) else {"": one}
        key = next((name for name in THINGS if isinstance(one.get(name), str)), None)
        if key is None:
            remedy = "Give objects like those of an instance, or {name: place}."
            raise InputError(f"{one.get('', dict(one))!r} names nothing", where, remedy)
        rest = {name: value for name, value in one.items() if name != key}
        found.append((one[key], next(iter(rest.values())) if len(rest) == 1 else rest))
    return found


def _groups(given: Any, where: str) -> tuple[tuple[str, ...], ...]:
    try:
        return msgspec.convert(given, tuple[tuple[str, ...], ...])
    except msgspec.ValidationError as error:
        raise InputError(f"{error}", where, 'Give groups of names: [["a", "b"], ["c", "d"]].') from None


def _in_table(data: bytes, where: str) -> PinFields:
    """A line per pin: a column of things and one of places, or one per coordinate."""
    if not _is_table(data):
        raise InputError("is no file of pins", where, _REMEDY)
    try:
        text = data.decode("utf-8-sig")
        rows = csv.reader(io.StringIO(text), delimiter=_delimiter(text.partition("\n")[0]))
        columns = [one.strip() for one in next(rows)]
        thing = next(columns.index(name) for name in THINGS if name in columns)
        place = next((columns.index(name) for name in PLACES if name in columns), None)
        if place is None and not any(name in columns for name in COORDINATES):
            raise InputError("has no column of places", f"{where}: line 1", _REMEDY)
        pins = []
        for row in rows:
            if row and len(row) < len(columns):
                raise InputError(f"has {len(row)} cells", f"{where}: line {rows.line_num}", _REMEDY)
            if row:
                cells = {name: row[i].strip() for i, name in enumerate(columns) if i != thing and row[i].strip()}
                pins.append((row[thing].strip(), cells if place is None else row[place].strip()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"is no table: {error}", where, _REMEDY) from None
    return PinFields(pins=tuple(pins), where=where)


def _is_table(data: bytes) -> bool:
    head = data.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    cells = [one.strip().strip('"') for one in head.split(_delimiter(head))]
    return len(cells) > 1 and any(name in cells for name in THINGS)


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)
