"""How kernels share a chip's tiles, for CP-SAT: one share of its list for each kernel (C7, and T1 without a
utilisation)."""

from __future__ import annotations

from typing import Any

from chipmap.formulations.cpsat import Literal
from chipmap.formulations.dataflow.cpsat_assignment import Builder, Parts, total


class Shares:
    """``share[i, g, p, c]`` = [copy i lies in c under its options g, on share p of their list]; none where a
    utilisation is given."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.tables = builder, builder.tables
        self.share: dict[tuple[int, int, int, int], Literal] = {}
        for i in self.tables.copies if self.tables.problem.shares else ():
            for c in self.tables.slots[i]:
                self.def_share(i, c)

    def def_share(self, i: int, c: int) -> None:
        """One share of copy i, of a list of the option that it is sharded by, where it lies in c."""
        b, listed = self.builder, self.tables.shares(i)
        for g, (options, points) in enumerate(listed):
            lies = b.lies(i, options, c)
            each = [b.literal(f"share[{i},{g},{p},{c}]") for p in range(len(points))]
            for p, literal in enumerate(each):
                self.share[i, g, p, c] = literal
            if len(lies) == 1:
                b.model.add_exactly_one([*each, ~lies[0]])
            else:
                b.model.add(sum(each) == sum(lies))

    def parts(self, i: int, c: int, column: int) -> Parts:
        """The tiles (column 0) or picoseconds (1) of copy i in c."""
        listed = enumerate(self.tables.shares(i))
        return [(one[column], self.share[i, g, p, c]) for g, (_, points) in listed for p, one in enumerate(points)]


def c7_tiles(shares: Shares) -> None:
    """C7: the tiles of the copies in a partition are at most the chip's."""
    b, tables = shares.builder, shares.tables
    limit = tables.problem.instance.system.chip.tiles
    for c in range(tables.count):
        parts = [part for i in tables.inside(c) for part in shares.parts(i, c, 0)]
        b.enforce("c7_tiles", b.model.add(total(parts) <= limit))


def t1_compute_shared(shares: Shares, time: list[Any]) -> list[Any]:
    """T1 where tiles are shared: each copy's share takes at most the time of its partition (picoseconds, or above)."""
    for c, one in enumerate(time):
        for i in shares.tables.inside(c):
            shares.builder.model.add(total(shares.parts(i, c, 1)) <= one)
    return time
