"""Instances and solutions as plain Python: dicts and lists as JSON has them, and mappings by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import Family, get_family, resolve
from chipmap.inputs.reading import checked, decode, read
from chipmap.inputs.solutions import decode_solution, read_solution
from chipmap.records import InputError, Record, choices, refuse_nan
from chipmap.result import Result

#: An instance as users have it: a record, its JSON as a dict, a file, an archive, a shipped name.
Given = Record | Mapping[str, Any] | str | Path
#: A solution: a record, a result, its JSON as a dict, a mapping by name, the list that it consists of, a file.
GivenSolution = Record | Mapping[str, Any] | Sequence[Any] | str | Path


def instance_of(given: Given) -> Record:
    """The checked instance that ``given`` is, holds or names."""
    if isinstance(given, Record):
        return checked(given, type(given).__name__)
    return decode(_json(given, "instance"), "instance") if isinstance(given, Mapping) else read(given)


def solution_of(given: GivenSolution, family: Family, instance: Record) -> Record:
    """The solution of ``instance`` that ``given`` is, holds or names.

    A list is the one field that a solution must have (``chips`` of ``ring``, ``placements`` of ``wafer``, ``windows``
    of ``multimodel``). A dict without any of a solution's fields goes by name, where the family's solutions do:
    operation -> chip (``ring``), operation or module -> device (``placement``, as in a device map).
    """
    if isinstance(given, Result):
        if given.solution is None:
            raise InputError("this result holds no solution", "solution", "Give one that found one.")
        given = given.solution
    if isinstance(given, Record):
        return given
    if isinstance(given, str | Path):
        return read_solution(given, family, instance)
    kind: type[Record] = resolve(family.solution)
    known = {one.name: one for one in msgspec.structs.fields(kind)}
    if not isinstance(given, Mapping):
        given = {_only_field(known, family): _listed(given)}
    elif not known.keys() & given.keys() and family.named:
        found: Record = resolve(family.named)(instance, given)
        return found
    return decode_solution(_json(given, "solution"), "solution", family, instance)


def chips_by_name(instance: Any, given: Mapping[str, Any]) -> Record:
    """``ring``: the solution that puts each operation on the chip that ``given`` says."""
    from chipmap.instances.ring.instance import RingSolution

    names = [operation.name for operation in instance.graph.operations]
    for name in given:
        if name not in names:
            raise InputError(
                f"no operation is called {name!r}", "solution", choices(str(name), names[:20], "There are")
            )
    missing = next((name for name in names if name not in given), None)
    if missing is not None:
        raise InputError(f"says nothing of operation {missing!r}", "solution", "Name the chip of each operation.")
    return RingSolution.make(chips=[given[name] for name in names])


def devices_by_name(instance: Any, given: Mapping[str, Any]) -> Record:
    """``placement``: what a device map says."""
    found: Record = resolve(get_family("placement").read_split)(_json(given, "solution"), "solution", instance)
    return found


def _only_field(known: Mapping[str, Any], family: Family) -> str:
    needed = [name for name, one in known.items() if one.required]
    if len(needed) != 1 or family.read_split:
        raise InputError("is a list", "solution", f"Give a dict with {' and '.join(needed)}.")
    return needed[0]


def _listed(given: Any) -> list[Any]:
    """A sequence (an array as well) as a list."""
    listed = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(listed, list | tuple):
        raise InputError(f"is a {type(given).__name__}", "solution", "Give a record, a dict, a list or a file's name.")
    return list(listed)


def _json(given: Any, where: str) -> bytes:
    refuse_nan(given, where, endless=True)
    try:
        return msgspec.json.encode(given, enc_hook=_scalar)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"holds what JSON can't: {error}", where, "Give numbers, texts, lists and dicts.") from None


def _scalar(value: Any) -> Any:
    """Numbers and arrays of numpy as plain Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Record):
        return msgspec.to_builtins(value)
    raise TypeError(f"a {type(value).__name__}")
