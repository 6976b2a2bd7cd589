"""The table of measured times, as `chipmap measure` writes it and goes on from it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from chipmap.measuring.pace import UNKNOWN
from chipmap.measuring.passes import Measured, Operation, pace_of
from chipmap.records import InputError
from chipmap.records.text import csv_text

#: FLOP, bytes, sort, parts and order (:mod:`chipmap.networks.works`): what times of other networks are learned from.
WORK = ("flop", "read", "weights", "written", "sort", "parts", "row", "apart", "turned")
FIRST = ("graph", "operation", "module", "operator", "class", "ns", "repeat", "samples")
COLUMNS = (*FIRST, *WORK, "paces")
#: Columns of all tables that were ever written.
_BEFORE = (*FIRST, *WORK[:6], "paces")
KNOWN = (FIRST, *(_BEFORE[:end] for end in (-3, -2, -1, None)), COLUMNS)


def text(found: Mapping[str, Measured], kind: str) -> str:
    """The table of all graphs: times in ns at their common pace, the repeat error as a fraction, all samples as they
    were measured, FLOP, bytes, sort, parts and order, and the pace of each sample."""
    pace = pace_of(found)
    return csv_text(
        COLUMNS,
        (
            (
                graph,
                name,
                one.module,
                one.kind,
                kind,
                f"{one.ns(pace):.1f}",
                "" if (repeat := one.repeat(pace)) is None else f"{repeat:.4f}",
                ";".join(f"{sample:.1f}" for sample in one.samples),
                *(one.work or ("",) * len(WORK)),
                ";".join(f"{own:.1f}" for own in one.paces) if any(one.paces) else "",
            )
            for graph, measured in found.items()
            for name, one in measured.operations.items()
        ),
    )


def earlier(path: Path, kind: str) -> dict[str, Measured]:
    """What a table of before holds; nothing where there is none. :class:`InputError` for any other file."""
    if not path.exists():
        return {}
    if not path.is_file():
        raise InputError("is no file, so no table can be gone on with there", str(path), "Give --out another name.")
    try:
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        known = tuple(rows.fieldnames or ()) in KNOWN
    except (UnicodeDecodeError, csv.Error):
        known = False
    if not known:
        raise InputError("is no table that `chipmap measure` has written", str(path), "Give --out another name.")
    found: dict[str, Measured] = {}
    for row in rows:
        at = f"{path}: line {rows.line_num}"
        if row["class"] != kind:
            what = f"has times of class {row['class']!r}, not {kind!r}"
            raise InputError(what, at, "Keep one file for each class of devices, and give --costs each of them.")
        try:
            samples = [float(sample) for sample in row["samples"].split(";")]
            paces = [float(own) for own in filter(None, (row.get("paces") or "").split(";"))] or [UNKNOWN] * len(
                samples
            )
            flop, read, weights, written, kind_of, *rest = (row.get(name) or "" for name in WORK)
            sizes = (flop, read, weights, written)
            more = (int(one or least) for one, least in zip(rest, (1, 1, 1, 0), strict=True))
            given = (*map(int, sizes), kind_of, *more) if all(sizes) else ()
            if len(paces) != len(samples):
                raise ValueError
        except (ValueError, AttributeError):
            raise InputError(
                "has samples, paces or sizes that are no numbers", at, "Measure into a new file."
            ) from None
        measured = found.setdefault(row["graph"], Measured())
        measured.operations[row["operation"]] = Operation(row["module"], row["operator"], samples, given, paces)
    return found
