"""The registry: entries by instance hash, read from the package's own files, changed only by a maintainer.

``values/FAMILY.json`` holds the entries, ``values/FAMILY.zip`` a solution for each value (``HASH.json``). An entry
counts for the instance with that content hash and for no other, whatever its name.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import family_of, get_family, resolve
from chipmap.inputs.reading import decode, generate, read
from chipmap.known.records import Entries, Entry, Origin
from chipmap.records import InputError, Record
from chipmap.run import contradict
from chipmap.solve import check

VALUES = Path(__file__).with_name("values")


def known(instance: Record) -> Entry | None:
    """What the registry knows of this very instance; None where that is nothing."""
    return look_up(family_of(instance).name, instance.content_hash)


def look_up(family: str, instance_hash: str) -> Entry | None:
    """The entry of a family's instance by its content hash."""
    return entries_of(family).get(instance_hash)


@cache
def entries_of(family: str, folder: Path = VALUES) -> Mapping[str, Entry]:
    """The entries of a family by hash; none where the package has no file for it."""
    path = folder / f"{family}.json"
    return {one.instance_hash: one for one in Entries.read(path).entries} if path.is_file() else {}


def solution_of(entry: Entry, folder: Path = VALUES) -> dict[str, Any] | None:
    """The solution that has the entry's value: its own, or the one in the family's archive."""
    path = folder / f"{entry.family}.zip"
    if entry.solution is not None or entry.objective is None or not path.is_file():
        return entry.solution
    with zipfile.ZipFile(path) as packed:
        name = f"{entry.instance_hash}.json"
        plain: dict[str, Any] | None = msgspec.json.decode(packed.read(name)) if name in packed.namelist() else None
    return plain


def made(origin: Origin) -> Record:
    """The instance that ``origin`` describes."""
    settings = [f"{path}={msgspec.json.encode(value).decode()}" for path, value in origin.set.items()]
    if origin.instance is not None:
        return read(origin.instance, settings)
    if origin.generator is None:
        raise InputError("names neither an instance nor a generator", "origin", "Name the one or the other.")
    instance = generate(origin.generator, **origin.parameters)
    return decode(instance.to_json(), origin.generator, settings) if settings else instance


def refuted(entry: Entry, folder: Path = VALUES) -> str:
    """What is wrong with an entry, by making its instance anew and asking the checker; empty if nothing is.

    A bound can't be checked without solving again: it must not lie above the value, and a value rules out a proof of
    infeasibility.
    """
    instance = made(entry.origin)
    unit = family_of(instance).units_of(instance).objective
    if instance.content_hash != entry.instance_hash or family_of(instance).name != entry.family:
        return f"its origin makes another instance, with hash {instance.content_hash[:12]}"
    if unit != entry.unit:
        return f"its unit is {entry.unit}, that of the instance {unit}"
    if (entry.objective is None) != (entry.found is None):
        return "it has a value without a source, or a source without a value"
    if (entry.proved is not None) != (entry.infeasible or entry.bound is not None):
        return "it has a proof without a source, or a source without a proof"
    if entry.infeasible and (entry.objective is not None or entry.bound is not None):
        return "it is infeasible, and yet has a value or a bound"
    if entry.objective is not None and entry.bound is not None and entry.bound > entry.objective:
        return f"its bound {entry.bound} lies above its value {entry.objective}"
    return "" if entry.objective is None else _refused(entry, instance, folder)


def _refused(entry: Entry, instance: Record, folder: Path) -> str:
    """Where the checker contradicts an entry that has a value."""
    plain = solution_of(entry, folder)
    if plain is None:
        return "it has a value and no solution"
    certificate = check(instance, resolve(get_family(entry.family).solution).make(**plain))
    if not certificate.feasible:
        return f"the checker refuses its solution: {certificate.violations[0].message}"
    if certificate.objective != entry.objective:
        return f"the checker says {certificate.objective}, the entry {entry.objective}"
    return ""


def merged(old: Entry | None, new: Entry) -> Entry:
    """The better value and the better bound of two entries of one instance; where they are equal, the older one's.

    Raises :class:`InputError` where one contradicts the other.
    """
    if old is None:
        return new
    for proof, value in ((old, new), (new, old)):
        if excluded(proof, value.objective):
            what = (
                f"{old.instance}: a proof ({proof.proved}) and a checked solution ({value.found}) contradict each other"
            )
            raise InputError(what, old.instance_hash[:12], "One of the two is wrong: please report it.")
    better = new.objective is not None and (old.objective is None or new.objective < old.objective)
    tighter = new.bound is not None and (old.bound is None or new.bound > old.bound)
    found, proved = new if better else old, new if tighter or (new.infeasible and not old.infeasible) else old
    bound = None if proved.infeasible else proved.bound
    if bound is not None and found.objective is not None:
        bound = min(bound, found.objective)
    said, limit = old.reported or new.reported, old.reported_bound or new.reported_bound
    return msgspec.structs.replace(
        found,
        bound=bound,
        proved=proved.proved,
        infeasible=proved.infeasible,
        reported=said if said and (found.objective is None or found.objective > said.ticks) else None,
        reported_bound=limit if limit and (bound is None or bound < limit.ticks) else None,
    )


def excluded(entry: Entry, objective: int | None) -> bool:
    """Whether what is proved of an instance leaves no room for a solution with that objective."""
    if objective is None:
        return False
    return entry.infeasible or (entry.bound is not None and contradict(objective, entry.bound))


def packed(entries: Iterable[Entry], folder: Path = VALUES) -> tuple[bytes, bytes]:
    """The two files of one family: its entries as JSON, and their solutions; the same bytes for the same entries."""
    chosen, out = Entries.sorted(list(entries)), BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        for one in chosen.entries:
            plain = solution_of(one, folder)
            if plain is not None:
                info = zipfile.ZipInfo(f"{one.instance_hash}.json")  # 1980: no time of today
                info.compress_type = zipfile.ZIP_LZMA
                archive.writestr(info, msgspec.json.encode(plain))
    bare = Entries.sorted([msgspec.structs.replace(one, solution=None) for one in chosen.entries])
    return bare.to_json(indent=1), out.getvalue()
