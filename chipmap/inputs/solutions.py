"""From a file, an archive or standard input to a checked solution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import FAMILY_NAMES, Family, get_family, resolve
from chipmap.inputs.reading import ORDER, file_format, in_archive, plain_of, schema_of, source_of
from chipmap.records import InputError, Record, shortened
from chipmap.records.repeats import refuse_repeats
from chipmap.result import Bound, Result

#: Files of an archive that stand for the whole of it.
_OF_A_RUN = ("solution.json", "result.json")


class _Owner(msgspec.Struct):
    """The part of a result or of a solution that says which instance it is of, if it does."""

    instance_hash: str | None = None


def read_solution(
    source: str | Path, family: Family, instance: Record | None = None, *, of_this: bool = False
) -> Record:
    """The solution of ``family`` in a file, in a result's file, in an archive, or on standard input (``-``).

    Files of a family's own format are read with the ``instance`` that they belong to. With ``of_this``, what names
    the hash of another instance (an archive, a result, or a solution with an ``instance_hash``) is refused.
    """
    name = str(source)
    if name != "-" and Path(name).is_dir():
        whole = in_archive(Path(name), "solution.json")
        name = str(whole if whole.exists() else whole.with_name("result.json"))
    opened = source_of(name)
    data = opened.content()
    solution = decode_solution(data, opened.where, family, instance)
    if of_this and instance is not None:
        beside = Path(name).with_name("result.json")  # in an archive
        told = beside.read_bytes() if Path(name).name == "solution.json" and beside.is_file() else data
        if (its := _instance_hash(told)) not in (None, ours := instance.content_hash):
            what = f"is of another instance: its hash begins with {str(its)[:12]}, this instance's with {ours[:12]}"
            raise InputError(what, str(source), "Name the instance that it was made for (an archive holds it).")
    return solution


def bounds_of(source: str | Path | Result, family: Family, instance: Record) -> tuple[Bound, ...]:
    """The lower bounds that a run (an archive, a result's file, a result) has proved of this very instance.

    None where there is no result, where it is of another instance, where it had a constraint of the user's own, or
    where its bound and its solution contradict each other.
    """
    if not isinstance(source, Result):
        path = Path(source)
        if not path.is_dir() and path.name not in _OF_A_RUN:
            return ()
        beside = path / "result.json" if path.is_dir() else path.with_name("result.json")
        if not beside.is_file():
            return ()
        source = Result.read(beside)
    units = source.units.objective if source.units else None
    strange = source.instance_hash != instance.content_hash or units != family.units_of(instance).objective
    if strange or source.status in ("error", "infeasible") or "oracle" in source.provenance:
        return ()
    return source.bounds


def of_another(source: str | Path | Result, instance: Record) -> str:
    """What to say of a solution that was made for another instance than ``instance``, which judges it; else empty.

    An archive holds that instance: then the first of its fields that differ are named.
    """
    its: Any
    differs, ours = "", instance.content_hash
    if isinstance(source, Result):
        name, its = "the result given", source.instance_hash
    else:
        name, path = str(source), Path(source)
        beside = path / "result.json" if path.is_dir() else path.with_name("result.json")
        if path.is_dir() or (path.name == "solution.json" and beside.is_file()):
            path = beside
        its = _instance_hash(path.read_bytes()) if path.is_file() else None
        differs = _differing(path.with_name("instance.json"), instance) if its not in (None, ours) else ""
    if its in (None, ours):
        return ""
    return f"{name} was made for another instance{differs}: all figures are those of its mapping in the instance given"


def _differing(path: Path, instance: Record) -> str:
    """Which fields of the instance in an archive are others than those of ``instance``, in words; the first three."""
    found = list[str]()
    with suppress(InputError, OSError):
        theirs = type(instance).from_json(path.read_bytes(), str(path))
        for place, *values in _fields_that_differ(*map(msgspec.json.decode, (theirs.to_json(), instance.to_json()))):
            there, here = (shortened(msgspec.json.encode(one).decode(), 30) for one in values)
            found.append(f"{place} is {there} there, and {here} in the instance given")
    more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
    return f" ({'; '.join(found[:3])}{more})" if found else ""


def _fields_that_differ(theirs: Any, ours: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, value there, value here) of all fields that differ; lists are compared as a whole."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in dict.fromkeys((*theirs, *ours)):
            yield from _fields_that_differ(theirs.get(key), ours.get(key), f"{place}.{key}" if place else key)
    elif theirs != ours:
        yield place, theirs, ours


def _instance_hash(data: bytes) -> Any:
    """The hash of the instance that a result or a solution in JSON names; None for any other data."""
    try:
        return msgspec.json.decode(data, type=_Owner).instance_hash
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decode_solution(data: bytes, where: str, family: Family, instance: Record | None = None) -> Record:
    """The solution in ``data``; ``where`` names its source in errors."""
    record: type[Record] = resolve(family.solution)
    if data.lstrip()[:1] == b"{":
        refuse_repeats(data, where)
    native = file_format(data, where, "solution")
    if native is not None:
        found, form = native
        if found is not family:
            raise InputError(f"is a solution of family {found.name!r}", where, f"Give one of family {family.name!r}.")
        if instance is None:
            raise InputError(f"a {form.ending} is read together with its instance", where, "Give the instance as well.")
        solution: Record = resolve(form.read)(data, where, instance)
        return solution
    if instance is not None and family.plan_formats:
        planned: Record | None = resolve("chipmap.plans.reading:solution_in")(data, where, instance)
        if planned is not None:
            return planned
    if file_format(data, where, "instance") is not None:
        raise InputError("is an instance, not a solution", where, ORDER)
    remedy = f"A solution is JSON: `chipmap info --schema {family.name}-solution` prints the format."
    schema = schema_of(data, where, graph=False, remedy=remedy) or ""
    if schema.startswith("result/"):
        inner = plain_of(data, where).get("solution")
        if inner is None:
            raise InputError("this result holds no solution", where, "Name a result that found one.")
        data, where = msgspec.json.encode(inner), f"{where}: solution"
    elif schema in {one for name in FAMILY_NAMES for one in get_family(name).schemas}:
        raise InputError(f"is an instance ({schema}), not a solution", where, ORDER)
    if family.read_split and schema == "":
        split: Record = resolve(family.read_split)(data, where, instance)
        return split
    if schema and _instance_hash(data) is not None:
        data = msgspec.json.encode({k: v for k, v in plain_of(data, where).items() if k != "instance_hash"})
    return record.from_json(data, where)
