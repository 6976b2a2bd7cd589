"""What a sweep has found that nobody knew: entries of the registry, for a maintainer to merge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from chipmap.bench.point import Row
from chipmap.bench.sweep import Point
from chipmap.family import get_family
from chipmap.known.records import Entries, Entry, Source
from chipmap.known.registry import look_up, merged, refuted
from chipmap.records import InputError


@dataclass(frozen=True)
class Submission:
    """The entries that say something new, how many rows say nothing new, and the rows that can't be taken, with why."""

    entries: Entries
    equal: int
    refused: tuple[str, ...]


def submission(points: Iterable[Point], rows: Iterable[Row]) -> Submission:
    """The entries of the rows that improve the registry, each made anew and checked again."""
    new, equal, refused = dict[tuple[str, str], Entry](), 0, list[str]()
    for point, row in zip(points, rows, strict=True):
        entry = entry_of(point, row)
        if entry is None:
            continue
        name, key = " ".join(row.labels.values()), (entry.family, entry.instance_hash)
        shipped, earlier = look_up(*key), new.get(key)
        try:
            whole = merged(earlier or shipped, entry)
            if whole == (earlier or shipped):
                equal += 1
                continue
            wrong = "made from a file, which others don't have" if point.contents else refuted(entry)
        except InputError as error:
            wrong = str(error)
        if wrong:
            refused.append(f"{name}: {wrong}")
        else:
            new[key] = entry if earlier is None else whole
    return Submission(Entries.sorted(list(new.values())), equal, tuple(refused))


def entry_of(point: Point, row: Row) -> Entry | None:
    """What a row says of its instance; None where it says nothing."""
    if row.status not in ("optimal", "feasible", "infeasible", "unknown") or not row.instance_hash or row.units is None:
        return None
    infeasible = row.status == "infeasible"
    bound = None if infeasible else row.bound
    if row.objective is None and bound is None and not infeasible:
        return None
    proves, finds = infeasible or bound is not None, row.objective is not None
    return Entry(
        instance=row.instance,
        instance_hash=row.instance_hash,
        family=get_family(row.method.partition("/")[0]).name,
        origin=point.origin,
        unit=row.units.objective,
        objective=row.objective,
        found=_source(row, row.found_by) if finds else None,
        bound=bound,
        proved=_source(row, row.proved_by) if proves else None,
        infeasible=infeasible,
        solution=row.solution if finds else None,
    )


def _source(row: Row, step: str) -> Source:
    return Source(
        method=row.method,
        step=step,
        version=row.version,
        seed=row.seed,
        time_limit_s=row.time_limit_s,
        archive=hashlib.sha256(row.to_json()).hexdigest(),
    )
