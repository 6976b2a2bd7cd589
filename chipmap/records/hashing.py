"""What of a record goes into its hash: fields that came later count only where they say something."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec


def hashed(value: Any) -> Any:
    """What of ``value`` goes into a hash: all, but for the later fields of records at their defaults."""
    kind: Any = type(value)
    if _is_record(kind) and _has_later(kind):
        defaults = _defaults(kind)
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {k: hashed(v) for k, v in fields if k not in value.LATER_FIELDS or v != defaults[k]}
    if isinstance(value, tuple) and value and _is_record(type(value[0])):
        kind = type(value[0])
        if _has_later(kind) and any(type(one) is not kind for one in value):
            return [hashed(one) for one in value]
        found, defaults = msgspec.to_builtins(value), _defaults(kind) if kind.LATER_FIELDS else {}
        for name in kind.LATER_FIELDS:
            usual = msgspec.to_builtins(defaults[name])
            for fields in found:
                if fields[name] == usual:
                    del fields[name]
        for name in _inside_with_later(kind):
            for one, fields in zip(value, found, strict=True):
                if name in fields and (inner := getattr(one, name)):
                    fields[name] = hashed(inner)
        return found
    return msgspec.to_builtins(value)


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """The default of each field (looked up once per kind: that takes longer than to hash a record)."""
    fields = msgspec.structs.fields(kind)
    made = {field.name: field.default_factory() for field in fields if callable(field.default_factory)}
    return {field.name: field.default for field in fields} | made


@cache
def _has_later(kind: Any) -> bool:
    """Whether a record of this kind, or one inside it (alone or in a tuple), has later fields."""
    return bool(kind.LATER_FIELDS) or bool(_inside_with_later(kind))


@cache
def _inside_with_later(kind: Any) -> tuple[str, ...]:
    """The fields of this kind with records that have later fields."""
    hints = [(name, hint) for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__]
    inner = [(name, one) for name, hint in hints for one in (hint, *get_args(hint))]
    found = (name for name, one in inner if _is_record(one) and _has_later(one))
    return tuple(dict.fromkeys(found))


def _is_record(kind: Any) -> bool:
    """Whether this is a kind of :class:`chipmap.records.Record`: they alone have later fields."""
    return isinstance(kind, type) and hasattr(kind, "LATER_FIELDS")
