"""Proved optima of the graphs that a policy imitates, solved once and kept in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from chipmap.deadline import Deadline
from chipmap.learned.ring.data import Row
from chipmap.records import InputError, read_bytes
from chipmap.records.files import write_whole
from chipmap.solve import solve

#: Seconds that a proof may take: each of the rows' optima was proved in 60 on another machine.
PROOF_S = 300.0
FILE = "optima.json"


def optima(rows: Sequence[Row], folder: Path, deadline: Deadline = Deadline()) -> dict[str, list[int]]:
    """Row's name -> chips [n] of a mapping that ``ring/auto`` proves optimal; rows without a proved one are left out.

    ``folder`` keeps them (``optima.json``): what is there isn't solved again. Raises :class:`InputError` where that
    file is something else, and the deadline's stop.
    """
    path, found = folder / FILE, dict[str, list[int]]()
    if path.exists():
        try:
            found = msgspec.json.decode(read_bytes(path), type=dict[str, list[int]])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise InputError("holds no optima", str(path), "Delete it: they are proved again.") from None
    for row in rows:
        if not row.optimum or row.name in found:
            continue
        deadline.check()
        instance, computing = row.contracted(), row.problem().n
        result = solve(instance, "ring/auto", time_limit=min(PROOF_S, deadline.seconds), isolate=False)
        if result.status == "optimal" and result.solution is not None:
            found[row.name] = list(result.solution["chips"])[-computing:]
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, msgspec.json.encode(found))
    return {row.name: found[row.name] for row in rows if row.name in found}
