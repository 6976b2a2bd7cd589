"""``--set dotted.path=VALUE``: changes to a record's plain data, checked against the record's own fields.

A value is JSON, or what people write instead: text, ``64MiB``, ``1e6``, ``C1,C2`` for a list. What it becomes depends
on the type of the field (:func:`fitted`). An object is merged with the one that is there: fields that it doesn't name
stay. ``path:=VALUE`` replaces it, and fields that it doesn't name get their defaults (:func:`resets` lists them).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import msgspec.inspect as kinds

from chipmap.records import InputError, Record, amounts, choices, shortened, shown
from chipmap.records.repeats import refuse_repeats


def parse(setting: str, option: str = "--set") -> tuple[str, Any]:
    """(path, value) of ``path=value``; the value is JSON if it can be read as such, else a string.

    >>> parse("package.chips=36"), parse("cost_mode=sum")
    (('package.chips', 36), ('cost_mode', 'sum'))
    """
    path, text = split(setting, option)
    return path, _json(text, f"{option} {path}")


def split(setting: str, option: str = "--set") -> tuple[str, str]:
    """(path, text of the value) of ``path=value``; :class:`InputError` where it has none, or is no text."""
    path, equals, text = setting.partition("=")
    path = path.strip()
    if any("\ud800" <= character <= "\udfff" for character in setting):  # how Python hands over odd bytes
        shown = setting.encode(errors="replace").decode()
        raise InputError("isn't UTF-8", f"{option} {shown}", "Write it in UTF-8.")
    if not equals or not path:
        raise InputError("has no value", f"{option} {setting}", f"Write it as {option} NAME=VALUE.")
    return path, text.strip()


def brief(settings: Iterable[str]) -> tuple[str, ...]:
    """The settings as people read them beside a name.

    >>> brief(['constraints=["C1", "C2"]', "package.chips = 3"])
    ('constraints=C1,C2', 'package.chips=3')
    """
    told = []
    for path, value in map(parse, settings):
        plain = isinstance(value, list) and not any(isinstance(one, list | dict) for one in value)
        text = ",".join(map(_brief, value)) if plain else _brief(value)
        told.append(f"{path}={shortened(text, 60)}")
    return tuple(told)


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json(text: str, where: str) -> Any:
    if "{" in text:
        refuse_repeats(text, where)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def fitted(text: str, kind: kinds.Type, name: str, where: str) -> Any:
    """The value that ``text`` has for a field ``name`` of type ``kind``: JSON where it is, else as people write it.

    Numbers may have units that fit the field's name (``sram_bytes=64MiB``, ``hop_ns=1us``) and need not look whole to
    be (``1e6``). Lists may leave out quotes and brackets. :class:`InputError` names the choices where there are some.
    """
    value = _json(text, where)
    if value is None and not isinstance(kind, kinds.StrType):
        return None
    kind = _solid(kind)
    if isinstance(kind, kinds.IntType | kinds.FloatType):
        return amounts.scalar(value, text, name, where, isinstance(kind, kinds.IntType))
    if isinstance(kind, kinds.StrType) and not isinstance(value, str | list | dict):
        return text
    if isinstance(kind, kinds.LiteralType) and isinstance(value, str) and value not in kind.values:
        raise InputError(f"{value!r} is no value of {name}", where, choices(value, map(str, kind.values)))
    inner = _items(kind)
    if inner is None or isinstance(value, dict):
        return value
    if isinstance(value, list):
        # what JSON has read is looked at item by item, so that numbers and names are checked alike
        plain = isinstance(inner, kinds.IntType | kinds.FloatType | kinds.LiteralType)
        return [fitted(_brief(one), inner, name, where) if plain and _single(one) else one for one in value]
    return [fitted(part.strip(), inner, name, where) for part in text.split(",")] if text else []


def _single(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _items(kind: kinds.Type) -> kinds.Type | None:
    """The type of a list's items; None for what is no list, or one of differing types."""
    if isinstance(kind, kinds.ListType | kinds.VarTupleType | kinds.SetType | kinds.FrozenSetType):
        return _solid(kind.item_type)
    if isinstance(kind, kinds.TupleType) and len({type(item) for item in kind.item_types}) == 1:
        return _solid(kind.item_types[0])
    return None


def apply(data: dict[str, Any], record: type[Record], settings: Iterable[str]) -> None:
    """Change ``data`` (a ``record`` as plain JSON) as the settings say, in their order.

    Only fields that the record has can be set; those on the way to it that are missing in ``data`` get their defaults.
    A mapping's key may be new and may contain dots. Raises :class:`InputError` that names the fields that exist.
    """
    for setting in settings:
        path, text = split(setting)
        _set(data, kinds.type_info(record), path.split("."), text, f"--set {shortened(setting)}")


def _set(data: Any, kind: kinds.Type, path: list[str], text: str, where: str) -> None:
    """Set the value that ``text`` says at ``path`` below ``data``, which is of ``kind``; a path ends in ``:`` where an
    object is replaced, and not merged with the one that is there."""
    whole = path[-1].endswith(":")
    path = [*path[:-1], path[-1].removesuffix(":").rstrip()]
    for i, name in enumerate(path):
        here, last, kind = ".".join(path[:i]), i == len(path) - 1, _solid(kind)
        key: str | int = name
        if isinstance(kind, kinds.StructType) and isinstance(data, dict):
            fields = {field.encode_name: field for field in kind.fields}
            if name not in fields:
                what = f"{here or f'a {kind.cls.__name__}'} has no field {shown(name)}"
                raise InputError(what, where, choices(name, fields, "The fields are"))
            if not last and name not in data:
                data[name] = _default(fields[name], ".".join(path[: i + 1]), where)
            kind = fields[name].type
        elif isinstance(kind, kinds.DictType) and isinstance(data, dict):
            kind = _solid(kind.value_type)
            if last or not isinstance(kind, kinds.StructType | kinds.DictType):
                entry = ".".join(path[i:])
                value = fitted(text, kind, path[i - 1] if i else name, where)
                data[entry] = _merged(data.get(entry), value, whole, where)
                return
            if name not in data:
                raise InputError(f"{here} has no entry {shown(name)}", where, choices(name, data, "Entries"))
        elif isinstance(data, list):
            if not name.isdecimal() or len(name) > 18 or int(name) >= len(data):
                remedy = f"Positions run from 0 to {len(data) - 1}." if data else f"It is empty: set {here} as a whole."
                raise InputError(f"{here} has no item {shown(name)}", where, remedy)
            key = int(name)
            kind = _item_kind(kind, key)
        else:
            raise InputError(f"{here} is a single value and has no {shown(name)}", where, f"Set {here} as a whole.")
        if last:
            there: Any = data[key] if isinstance(data, list) or key in data else None  # type: ignore[index]
            data[key] = _merged(there, fitted(text, kind, _named(path), where), whole, where)
        else:
            data = data[key]


def _merged(there: Any, value: Any, whole: bool = False, where: str = "") -> Any:
    """``value``; of two objects the one that is ``there`` with the fields of ``value`` set, at every depth."""
    if value == {} and there and where and not whole:
        path, _, _ = where.removeprefix("--set ").partition("=")
        raise InputError(
            "names no field, so it would change nothing", where, f"To empty it: --set {path.strip()}:={{}}"
        )
    if whole or not isinstance(value, dict) or not isinstance(there, dict):
        return value
    return there | {key: _merged(there.get(key), one) for key, one in value.items()}


def resets(instance: Record, settings: Iterable[str]) -> list[str]:
    """What to say of settings ``path:=OBJECT``: the fields that have their defaults since, with their values.

    >>> from chipmap import read  # doctest: +SKIP
    >>> resets(read("ring/tiny-skip", ['package:={"chips": 3}']), ['package:={"chips": 3}'])  # doctest: +SKIP
    ['--set package:={"chips": 3}: back to its default: package.sram_bytes=33554432, …']
    """
    said = []
    for setting in settings:
        path, value = parse(setting)
        if not path.endswith(":") or not isinstance(value, dict):
            continue
        names = path.removesuffix(":").rstrip().split(".")
        there: Any = msgspec.to_builtins(instance)
        while names and isinstance(there, dict | list):
            name = names.pop(0)
            there = there[int(name)] if isinstance(there, list) else there.get(name)
        if isinstance(there, dict):
            told = [f"{path[:-1].rstrip()}.{key}={_brief(one)}" for key, one in there.items() if key not in value]
            if told:
                said.append(f"--set {shortened(setting, 60)}: back to the default: {shortened(', '.join(told), 600)}")
    return said


def _named(path: list[str]) -> str:
    """The last name on a path that is no position in a list."""
    return next((name for name in reversed(path) if not name.isdecimal()), path[-1])


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
