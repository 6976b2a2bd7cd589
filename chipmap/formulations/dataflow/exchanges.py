"""Exchanges that depend on what ran before, stated alike in both models of family ``dataflow``.

- ``free[e, n, c]``: v of tensor e lies in c and has a change of layout for nothing, as someone before it pays: a reader
  in the same partition, or a product that lies alike and is listed before. At most as often as such a one is there.
- ``upto[a, c]`` = [all products that are added up lie in a partition <= c]; ``summed[a, k, c]`` = [their sum of kind k
  is made in c], where the last of them lies: at least once if a member asks for it.
- ``had[n, need, i, l]`` = [after reader i of a chain the layout that ``need`` is taken from is l]: that of the first
  reader who covers it. Then ``free``, and ``read``, ``later``, ``kept`` and ``written`` say who reads it when.
- ``handed[n, g, h]``: parameters rest as in the owner's schemes g, and their gradient is made as in the update's h.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from typing import Any, Protocol

from chipmap.formulations.dataflow.tables import Tables
from chipmap.formulations.dataflow.tables_exchanges import Chain, Sums
from chipmap.formulations.dataflow.tables_tensors import Cell, Mark, Tensor
from chipmap.instances.dataflow.alike import Alike

#: Amounts, each times an expression in literals.
Parts = list[tuple[int, Any]]
#: Payers before a position are summed up to so many; the next have literals of their own.
FEW_PAYERS = 3


class Rows(Protocol):
    """A model that is being stated; expressions are linear in its literals."""

    tables: Tables

    def literal(self, name: str, *key: Any) -> Any:
        """A new variable that is 0 or 1 where all choices are made."""

    def row(self, name: str, constraint: Any) -> None:
        """Add a row that holds always."""

    def picked(self, i: int, options: Alike) -> Any:
        """[copy i is sharded as in one of ``options``]."""

    def lies(self, i: int, options: Alike, c: int) -> Any:
        """[copy i lies in its slot c, sharded as in one of ``options``]."""

    def upto(self, i: int, c: int) -> Any:
        """[copy i lies in a slot <= c]."""

    def paired(self, e: int, g: int, h: int, c: int) -> Any:
        """[v of tensor e lies in its slot c under its options h, and u anywhere under g]."""


class Exchanged:
    """What was stated: by slot picoseconds of the ``network`` and of ``dram``, bytes of a ``buffer`` and bytes ``held``
    in DRAM; bytes that ``rest`` there; picoseconds ``after`` a batch. ``free[e, m, c]``: v of tensor e in c doesn't
    read what u made under its class m."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.tables = rows, rows.tables
        self.network: dict[int, Parts] = defaultdict(list)
        self.dram: dict[int, Parts] = defaultdict(list)
        self.buffer: dict[int, Parts] = defaultdict(list)
        self.held: dict[int, Parts] = defaultdict(list)
        self.rest: Parts = []
        self.after: Parts = []
        self.free: dict[tuple[int, int, int], list[Any]] = defaultdict(list)
        self._before: dict[tuple[int, int, int | None], Any] = {}
        self._all: dict[tuple[int, int], Any] = {}
        chained = {e for chain in self.tables.exchanges.chains for e in chain.edges}
        for e in range(len(self.tables.linked)):
            if e not in chained:
                self._def_free(e)
            self._def_held(e)
        for a, sums in enumerate(self.tables.exchanges.sums):
            self._def_summed(a, sums)
        for n in range(len(self.tables.exchanges.handed)):
            self._def_handed(n)
        for n, chain in enumerate(self.tables.exchanges.chains):
            _Kept(self, n, chain).state()

    def elsewhere(self, e: int, m: int) -> list[Any]:
        """Literals of which one holds where v of tensor e doesn't read what u made under its class m."""
        place = self.tables.place
        return self.free.get((e, m, place[self.tables.linked[e].v]), []) if place else []

    def _def_free(self, e: int) -> None:
        """free[e, n, c], for the cells alike in price and payers, by slot of v."""
        rows, t = self.rows, self.tables.linked[e]
        groups: dict[Mark, dict[int, list[tuple[int, int]]]] = {}
        for g, h, cell in cells_of(t):
            if isinstance(cell.mark, Mark):
                groups.setdefault(cell.mark, {}).setdefault(cell.price, []).append((g, h))
        for mark, prices in groups.items():
            near, everywhere = self.tables.exchanges.payers[mark.payers].near, list[Any]()
            for c in self.tables.slots[t.v]:
                free = []
                for price, cells in prices.items():
                    free.append(rows.literal("free", e, *mark, price, c))
                    rows.row("free", free[-1] <= sum(rows.paired(e, g, h, c) for g, h in cells))
                    self.network[c].append((-price, free[-1]))
                everywhere += free
                if near:
                    rows.row("free", sum(free) <= self.before(mark.payers, mark.position, c))
            if not near:
                rows.row("free", sum(everywhere) <= self.before(mark.payers, mark.position, None))

    def before(self, payers: int, position: int, c: int | None) -> Any:
        """At most how many of the payers before a position pay, in slot c (None: anywhere)."""
        key, listed = (payers, position, c), self.tables.exchanges.payers[payers]
        if key not in self._before:
            i, options = listed.copies[position - 1], listed.options[position - 1]
            last = self.before(payers, position - 1, c) if position > 1 else 0
            if options and (c is None or c in self.tables.slots[i]):
                last = last + (self.rows.picked(i, options) if c is None else self.rows.lies(i, options, c))
            if position > FEW_PAYERS and not isinstance(last, int):
                paid = self.rows.literal("paid", payers, position, -1 if c is None else c)
                self.rows.row("paid", paid <= last)
                last = paid
            self._before[key] = last
        return self._before[key]

    def _def_held(self, e: int) -> None:
        """Bytes of parameters while their user runs (C6)."""
        t = self.tables.linked[e]
        for g, h, cell in cells_of(t):
            for c in self.tables.slots[t.v] if cell.held else ():
                self.held[c].append((cell.held, self.rows.paired(e, g, h, c)))

    def _def_summed(self, a: int, sums: Sums) -> None:
        """summed[a, k, c], in the slot of the last member."""
        rows, slots, place = self.rows, list(self.tables.slots[sums.members[0]]), self.tables.place
        if self.tables.fixed_places:
            slots = [max(place[i] for i in sums.members)]
        last = [self._upto(a, sums, c) - (self._upto(a, sums, c - 1) if c > slots[0] else 0) for c in slots]
        for k, (price, asked) in enumerate(sums.kinds):
            made = [rows.literal("summed", a, k, c) for c in slots]
            for c, one, here in zip(slots, made, last, strict=True):
                rows.row("summed", one <= here)
                self.network[c].append((price, one))
            for i, options in asked:
                rows.row("summed", sum(made) >= rows.picked(i, options))

    def _upto(self, a: int, sums: Sums, c: int) -> Any:
        """upto[a, c] = AND over members i of y[i, c]."""
        if self.tables.fixed_places or c >= self.tables.slots[sums.members[0]].stop - 1:
            return 1
        if len(sums.members) == 1:
            return self.rows.upto(sums.members[0], c)
        if (a, c) not in self._all:
            upto, each = self.rows.literal("upto", a, c), [self.rows.upto(i, c) for i in sums.members]
            for one in each:
                self.rows.row("upto", upto <= one)
            self.rows.row("upto", upto >= sum(each) - (len(each) - 1))
            self._all[a, c] = upto
        return self._all[a, c]

    def _def_handed(self, n: int) -> None:
        """handed[n, g, h] = [owner's schemes g] · [update's schemes h], by its two sums (T6)."""
        rows, t = self.rows, self.tables.exchanges.handed[n]
        pairs = {(g, h): rows.literal("handed", n, g, h) for g, h, _ in cells_of(t)}
        for end, parts, at in ((t.u, t.made, 0), (t.v, t.taken, 1)):
            for part, options in enumerate(parts):
                rows.row(
                    "handed", sum(one for key, one in pairs.items() if key[at] == part) == rows.picked(end, options)
                )
        self.after += [(cell.price, pairs[g, h]) for g, h, cell in cells_of(t)]


class _Kept:
    """One chain of readers that keep what they pay for; each lies in a slot of its own."""

    def __init__(self, out: Exchanged, n: int, chain: Chain) -> None:
        self.out, self.rows, self.n, self.chain = out, out.rows, n, chain
        self.tensors = out.tables.linked
        self.slots = [out.tables.place[self.tensors[e].v] for e in chain.edges]
        self.last = len(chain.edges) - 1
        needs = {need for i in range(self.last + 1) for need in chain.needs(self.tensors, i)}
        #: of each layout that someone may have without paying, those it is taken from
        self.sources = {need: chain.suppliers(self.tensors, self.last, need) for need in needs if self._found(need)}
        self._later: dict[tuple[int, int], Any] = {}
        self._had: dict[tuple[int, int, int], Any] = {}

    def _found(self, need: int) -> bool:
        later = (i for i in range(self.last + 1) if need in self.chain.needs(self.tensors, i))
        return any(self.chain.suppliers(self.tensors, i, need) for i in later)

    def state(self) -> None:
        """All rows, and what they add to T2, T3, C2 and C6."""
        for need in self.sources:
            for i in range(self.last):
                self._def_had(need, i)
        for i in range(1, self.last + 1):
            for need in self.chain.needs(self.tensors, i):
                if need in self.sources:
                    self._def_read(need, i)
        for layout in sorted({layout for sources in self.sources.values() for layout in sources}):
            self._def_written(layout)
            if self.out.tables.problem.instance.system.memory.capacity_bytes is not None:
                self._def_waits(layout)

    def wants(self, i: int, need: int, supplied: bool = False) -> Any:
        """[reader i needs this layout, and what was made doesn't cover it]; or only if it then has it for others."""
        e, c = self.chain.edges[i], self.slots[i]
        cells = (one for one in cells_of(self.tensors[e]) if one[2].mark == need and (one[2].supplies or not supplied))
        return sum(self.rows.paired(e, g, h, c) for g, h, _ in cells)

    def had(self, need: int, i: int, layout: int) -> Any:
        """had[n, need, i, l]; 0 before the first reader."""
        return self._had.get((need, i, layout), 0)

    def _def_had(self, need: int, i: int) -> None:
        """After reader i: as before, or what it pays for if nothing covered ``need`` before."""
        rows, sources = self.rows, self.sources[need]
        wants = {layout: self.wants(i, layout, supplied=True) for layout in sources}
        if i == 0 or all(isinstance(one, int) for one in wants.values()):
            now = wants if i == 0 else {layout: self.had(need, i - 1, layout) for layout in sources}
            self._had |= {(need, i, layout): one for layout, one in now.items()}
            return
        for layout in sources:
            before = self.had(need, i - 1, layout)
            if isinstance(wants[layout], int):  # it never pays for that one
                self._had[need, i, layout] = before
                continue
            now = self._had[need, i, layout] = rows.literal("had", self.n, need, i, layout)
            rows.row("had", now >= before)
            rows.row("had", now - before <= wants[layout])
        total = sum(self.had(need, i, layout) for layout in sources)
        rows.row("had", total >= sum(wants.values()))
        rows.row("had", total <= 1)

    def _def_read(self, need: int, i: int) -> None:
        """Reader i has ``need`` for nothing exactly if some layout covers it, and reads that one (T2, T3, C2)."""
        rows, e, c, copies = self.rows, self.chain.edges[i], self.slots[i], self.chain.copies
        had = {layout: self.had(need, i - 1, layout) for layout in self.sources[need]}
        had = {layout: one for layout, one in had.items() if not isinstance(one, int)}
        if not had:
            return
        t, stored = self.tensors[e], self.out.tables.stored(self.tensors[e].u)
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for g, h, cell in cells_of(t):
            if cell.mark == need:
                m = next(m for m, options in enumerate(stored) if t.made[g][0] in options)
                groups.setdefault((m, cell.price), []).append((g, h))
        free = []
        for (m, price), cells in groups.items():
            free.append(rows.literal("free", e, need, m, price))
            rows.row("free", free[-1] <= sum(rows.paired(e, g, h, c) for g, h in cells))
            self.out.network[c].append((-price, free[-1]))
            self.out.free[e, m, c].append(free[-1])
        there = sum(had.values())
        rows.row("free", sum(free) <= there)
        rows.row("free", self.wants(i, need) + there - sum(free) <= 1)
        read = {layout: rows.literal("read", self.n, need, i, layout) for layout in had}
        rows.row("read", sum(read.values()) == sum(free))
        for layout, one in read.items():
            rows.row("read", one <= had[layout])
            self.out.dram[c].append((copies[layout].dram, one))
            self.out.buffer[c].append((2 * copies[layout].buffer, one))

    def later(self, need: int, i: int) -> Any:
        """[a reader after reader i needs this layout], or above."""
        if i >= self.last:
            return 0
        if (need, i) not in self._later:
            after, wants = self.later(need, i + 1), self.wants(i + 1, need)
            if isinstance(after, int) or isinstance(wants, int):
                self._later[need, i] = wants if isinstance(after, int) else after
            else:
                later = self._later[need, i] = self.rows.literal("later", self.n, need, i)
                self.rows.row("later", later >= after)
                self.rows.row("later", later >= wants)
        return self._later[need, i]

    def _at_least(self, name: str, i: int, layout: int, terms: list[Any]) -> Any:
        """A literal, at least each of ``terms``; 0 where these are known to be."""
        terms = [one for one in terms if not isinstance(one, int)]
        if not terms:
            return 0
        literal = self.rows.literal(name, self.n, layout, i)
        for one in terms:
            self.rows.row(name, literal >= one)
        return literal

    def _def_written(self, layout: int) -> None:
        """written[n, l, i]: reader i pays for a layout that a later one reads (T2, C2)."""
        copy = self.chain.copies[layout]
        needs = [need for need, sources in self.sources.items() if layout in sources]
        for i, c in enumerate(self.slots[:-1]):
            terms = []
            for need in needs:
                before, now, later = self.had(need, i - 1, layout), self.had(need, i, layout), self.later(need, i)
                if now is not before and not isinstance(later, int):
                    terms.append(now - before + later - 1)
            written = self._at_least("written", i, layout, terms)
            if not isinstance(written, int):
                self.out.dram[c].append((copy.dram, written))
                self.out.buffer[c].append((2 * copy.buffer, written))

    def _def_waits(self, layout: int) -> None:
        """kept[n, l, i]: it lies in DRAM after reader i for a later one (C6): it waits, or rests where it is paid for
        in the forward phase and read in the backward phase."""
        copy, border = self.chain.copies[layout], self.chain.forward - 1
        needs = [need for need, sources in self.sources.items() if layout in sources]
        kept = []
        for i in range(self.last):
            pairs = [(self.had(need, i, layout), self.later(need, i)) for need in needs]
            terms = [0 if isinstance(a, int) or isinstance(b, int) else a + b - 1 for a, b in pairs]
            kept.append(self._at_least("kept", i, layout, terms))
        saved: Any = 0
        if 0 <= border < self.last:
            saved, kept[border] = kept[border], 0
            self.out.rest.append((ceil(copy.size * self.out.tables.exchanges.rests), saved))
        waits = [
            self._at_least("waits", i, layout, [one if isinstance(one, int) else one - saved])
            for i, one in enumerate(kept)
        ]
        for i, c in enumerate(self.slots):
            both = waits[max(0, i - 1) : i + 1]
            here = self._at_least("here", i, layout, both) if len(both) > 1 else both[0]
            self.out.held[c].append((copy.size, here))
            for between in range(c + 1, self.slots[i + 1]) if i < self.last else ():
                self.out.held[between].append((copy.size, waits[i]))


def cells_of(t: Tensor) -> Iterator[tuple[int, int, Cell]]:
    """(g, h, cell) of a tensor."""
    for g, row in enumerate(t.cells):
        yield from ((g, h, cell) for h, cell in enumerate(row))
