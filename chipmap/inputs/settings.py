"""``--set dotted.path=JSON``: changes to a record's plain data, checked against the record's own fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import msgspec.inspect as kinds

from chipmap.records import InputError, Record


def parse(setting: str, option: str = "--set") -> tuple[str, Any]:
    """(path, value) of ``path=value``; the value is JSON if it can be read as such, else a string.

    >>> parse("package.chips=36"), parse("cost_mode=sum")
    (('package.chips', 36), ('cost_mode', 'sum'))
    """
    path, equals, text = setting.partition("=")
    path = path.strip()
    if not equals or not path:
        raise InputError("has no value", f"{option} {setting}", f"Write it as {option} NAME=VALUE.")
    try:
        return path, msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return path, text.strip()


def apply(data: dict[str, Any], record: type[Record], settings: Iterable[str]) -> None:
    """Change ``data`` (a ``record`` as plain JSON) as the settings say, in their order.

    Only fields that the record has can be set; those on the way to it that are missing in ``data`` get their defaults.
    A mapping's key may be new and may contain dots. Raises :class:`InputError` that names the fields that exist.
    """
    for setting in settings:
        path, value = parse(setting)
        _Change(f"--set {setting}", value).at(data, kinds.type_info(record), path.split("."), ())


class _Change:
    """One setting on its way down the data; ``done`` is the path walked so far."""

    def __init__(self, where: str, value: Any) -> None:
        self.where, self.value = where, value

    def at(self, data: Any, kind: kinds.Type, path: list[str], done: tuple[str, ...]) -> None:
        kind = _solid(kind)
        if isinstance(kind, kinds.StructType) and isinstance(data, dict):
            self._field(data, kind, path, done)
        elif isinstance(kind, kinds.DictType) and isinstance(data, dict):
            self._entry(data, kind, path, done)
        elif isinstance(data, list):
            self._item(data, kind, path, done)
        else:
            here = ".".join(done)
            raise self._wrong(f"{here} is a single value and has no {path[0]!r}", f"Set {here} as a whole.")

    def _field(self, data: dict[str, Any], kind: kinds.StructType, path: list[str], done: tuple[str, ...]) -> None:
        fields = {field.encode_name: field for field in kind.fields}
        name, rest = path[0], path[1:]
        if name not in fields:
            here = ".".join(done) or f"a {kind.cls.__name__}"
            raise self._wrong(f"{here} has no field {name!r}", f"The fields are: {', '.join(fields)}.")
        if not rest:
            data[name] = self.value
            return
        if name not in data:
            data[name] = self._default(fields[name], (*done, name))
        self.at(data[name], fields[name].type, rest, (*done, name))

    def _entry(self, data: dict[str, Any], kind: kinds.DictType, path: list[str], done: tuple[str, ...]) -> None:
        inner = _solid(kind.value_type)
        if isinstance(inner, kinds.StructType | kinds.DictType) and len(path) > 1:
            if path[0] not in data:
                raise self._wrong(
                    f"{'.'.join(done)} has no entry {path[0]!r}", f"Entries: {', '.join(data) or 'none'}."
                )
            self.at(data[path[0]], inner, path[1:], (*done, path[0]))
        else:
            data[".".join(path)] = self.value

    def _item(self, data: list[Any], kind: kinds.Type, path: list[str], done: tuple[str, ...]) -> None:
        name, rest = path[0], path[1:]
        if not name.isdecimal() or int(name) >= len(data):
            here = ".".join(done)
            remedy = f"Positions run from 0 to {len(data) - 1}." if data else f"It is empty: set {here} as a whole."
            raise self._wrong(f"{here} has no item {name!r}", remedy)
        position = int(name)
        if not rest:
            data[position] = self.value
        else:
            self.at(data[position], _item_kind(kind, position), rest, (*done, name))

    def _default(self, field: kinds.Field, done: tuple[str, ...]) -> Any:
        if field.default is not msgspec.NODEFAULT:
            return msgspec.json.decode(msgspec.json.encode(field.default))
        if field.default_factory is not msgspec.NODEFAULT:
            return msgspec.json.decode(msgspec.json.encode(field.default_factory()))
        raise self._wrong(f"{'.'.join(done)} is missing in the data", "Give it there first.")

    def _wrong(self, what: str, remedy: str) -> InputError:
        return InputError(what, self.where, remedy)


def _solid(kind: kinds.Type) -> kinds.Type:
    """The type itself, without its "or null"."""
    if isinstance(kind, kinds.UnionType):
        solid = [inner for inner in kind.types if not isinstance(inner, kinds.NoneType)]
        return solid[0] if solid else kind
    return kind


def _item_kind(kind: kinds.Type, position: int) -> kinds.Type:
    if isinstance(kind, kinds.TupleType):
        return kind.item_types[position] if position < len(kind.item_types) else kinds.AnyType()
    inner: kinds.Type = getattr(kind, "item_type", kinds.AnyType())
    return inner
