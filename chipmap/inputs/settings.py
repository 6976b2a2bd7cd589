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
        _set(data, kinds.type_info(record), path.split("."), value, f"--set {setting}")


def _set(data: Any, kind: kinds.Type, path: list[str], value: Any, where: str) -> None:
    """Set the value at ``path`` below ``data``, which is of ``kind``."""
    for i, name in enumerate(path):
        here, last, kind = ".".join(path[:i]), i == len(path) - 1, _solid(kind)
        key: str | int = name
        if isinstance(kind, kinds.StructType) and isinstance(data, dict):
            fields = {field.encode_name: field for field in kind.fields}
            if name not in fields:
                what = f"{here or f'a {kind.cls.__name__}'} has no field {name!r}"
                raise InputError(what, where, f"The fields are: {', '.join(fields)}.")
            if not last and name not in data:
                data[name] = _default(fields[name], ".".join(path[: i + 1]), where)
            kind = fields[name].type
        elif isinstance(kind, kinds.DictType) and isinstance(data, dict):
            kind = _solid(kind.value_type)
            if last or not isinstance(kind, kinds.StructType | kinds.DictType):
                data[".".join(path[i:])] = value
                return
            if name not in data:
                raise InputError(f"{here} has no entry {name!r}", where, f"Entries: {', '.join(data) or 'none'}.")
        elif isinstance(data, list):
            if not name.isdecimal() or int(name) >= len(data):
                remedy = f"Positions run from 0 to {len(data) - 1}." if data else f"It is empty: set {here} as a whole."
                raise InputError(f"{here} has no item {name!r}", where, remedy)
            key = int(name)
            kind = _item_kind(kind, key)
        else:
            raise InputError(f"{here} is a single value and has no {name!r}", where, f"Set {here} as a whole.")
        if last:
            data[key] = value
        else:
            data = data[key]


def _default(field: kinds.Field, path: str, where: str) -> Any:
    if field.default is not msgspec.NODEFAULT:
        value = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    else:
        raise InputError(f"{path} is missing in the data", where, "Give it there first.")
    return msgspec.json.decode(msgspec.json.encode(value))


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
