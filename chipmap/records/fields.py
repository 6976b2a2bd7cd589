"""Amounts with units in JSON: ``"memory_bytes": "32GiB"``, in whatever record."""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.inspect as kinds

from chipmap.records import InputError, Record, amounts


def from_json(record: type[Record], data: bytes, where: str) -> Any:
    """The record in ``data``, as its own ``from_json`` reads it; texts with a unit at places of numbers are amounts in
    the unit in which the field's name ends. Raises :class:`InputError`, also for a unit that doesn't fit."""
    try:
        return record.from_json(data, where)
    except InputError:
        try:
            plain = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            plain = None
        texts = _Texts(where)
        changed = texts.read(plain, kinds.type_info(record), "", "")
        if not texts.count:
            raise
    return record.from_json(msgspec.json.encode(changed), where)


class _Texts:
    """Reads the texts at places of numbers; ``count`` says how many."""

    def __init__(self, where: str) -> None:
        self.where, self.count = where, 0

    def read(self, value: Any, kind: kinds.Type, name: str, path: str) -> Any:
        """The value with its amounts read."""
        options = kind.types if isinstance(kind, kinds.UnionType) else (kind,)
        if isinstance(value, str):
            return self._amount(value, options, name, path)
        for one in options:
            if isinstance(one, kinds.StructType) and isinstance(value, dict):
                fields = {field.encode_name: field.type for field in one.fields}
                return {k: self.read(v, fields[k], k, f"{path}.{k}") if k in fields else v for k, v in value.items()}
            if isinstance(one, kinds.DictType) and isinstance(value, dict):
                return {k: self.read(v, one.value_type, name, f"{path}.{k}") for k, v in value.items()}
            if isinstance(one, kinds.VarTupleType | kinds.ListType) and isinstance(value, list):
                return [self.read(v, one.item_type, name, f"{path}[{i}]") for i, v in enumerate(value)]
        return value

    def _amount(self, text: str, options: tuple[kinds.Type, ...], name: str, path: str) -> Any:
        numbers = [one for one in options if isinstance(one, kinds.IntType | kinds.FloatType)]
        if not numbers or any(isinstance(one, kinds.StrType) for one in options):
            return text
        place = ": ".join(part for part in (self.where, path.removeprefix(".")) if part)
        amounts.no_doubt(text, place)
        given = amounts.amount(text)
        if given is None or not given[1]:
            return text
        self.count += 1
        return amounts.scalar(text, text, name, place, not any(isinstance(one, kinds.FloatType) for one in numbers))
