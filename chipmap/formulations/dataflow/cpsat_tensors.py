"""Which tensors stay, leave and arrive, for CP-SAT: the matrices B, D, L and H, and pairs of sharding schemes."""

from __future__ import annotations

from typing import Any

from chipmap.formulations.cpsat import Literal
from chipmap.formulations.dataflow.cpsat_assignment import Builder, Parts
from chipmap.formulations.dataflow.exchanges import Exchanged
from chipmap.instances.dataflow.alike import Alike


class Tensors:
    """The literals of tensors, made from a builder's.

    ``pair[e, g, h, c]``: v of tensor e lies in c under its schemes h, and u is sharded as in g; ``inside[e, m, c]``:
    both ends lie in c, u sharded as in its class m. ``moves[kind, i, m, c]``: how often (a sum of literals) the output
    of copy i under its class m is written (``leaves``) or read (``arrives``) at the border of c; ``crossing[c]``: the
    same as (i, m, sum).
    """

    def __init__(self, builder: Builder) -> None:
        self.builder, self.tables = builder, builder.tables
        self.pair: dict[tuple[int, int, int, int], Literal] = {}
        self.inside: dict[tuple[int, int, int], Literal] = {}
        self.moves: dict[tuple[str, int, int, int], Parts] = {}
        self.crossing: dict[int, list[tuple[int, int, Parts]]] = {}
        for e in range(len(self.tables.linked)):
            self.def_pair(e)
        self.exchanged = Exchanged(CpRows(self))
        for e in range(len(self.tables.tensors)):
            self.def_inside(e)
        for i in self.tables.copies:
            for m, options in enumerate(self.tables.stored(i)):
                self.def_leaves(i, m, options)
                self.def_arrives(i, m, options)
        for (_, i, m, c), parts in self.moves.items():
            self.crossing.setdefault(c, []).append((i, m, parts))

    def def_pair(self, e: int) -> None:
        """Exactly one pair[e, g, h, c], which implies both its ends' schemes and v's partition."""
        b, t = self.builder, self.tables.linked[e]
        if len(t.made) == 1:
            return
        pairs = []
        for g, made in enumerate(t.made):
            for h, taken in enumerate(t.taken):
                for c in self.tables.slots[t.v]:
                    pair = self.pair[e, g, h, c] = b.literal(f"pair[{e},{g},{h},{c}]")
                    b.clause("def_pair", [~pair, *(b.s[t.u, o] for o in made)])
                    b.clause("def_pair", [~pair, *b.lies(t.v, taken, c)])
                    pairs.append(pair)
        b.model.add_exactly_one(pairs)

    def paired(self, e: int, g: int, h: int, c: int) -> list[Literal]:
        """pair[e, g, h, c], or the literals of which one holds then."""
        t = self.tables.linked[e]
        return [self.pair[e, g, h, c]] if len(t.made) > 1 else self.builder.lies(t.v, t.taken[h], c)

    def read(self, e: int, options: Alike, c: int) -> list[Literal]:
        """Literals of which one holds where v of tensor e lies in c and u is sharded as in one of ``options``."""
        t = self.tables.tensors[e]
        if len(options) == len(self.tables.options(t.u)):
            return [self.builder.A[t.v, c]]
        groups = [g for g, made in enumerate(t.made) if made[0] in options]
        return [literal for g in groups for h in range(len(t.taken)) for literal in self.paired(e, g, h, c)]

    def def_inside(self, e: int) -> None:
        """inside[e, m, c] = [u in c as in m] ∧ [v in c]; with C1 also y[v, c] ∧ ¬y[u, c - 1] -> one of them.

        B[e, c] is their sum over m; D[e, c] = A[u, c] + A[v, c] - 2 B[e, c], L[e, c] = y[u, c] - y[v, c - 1] - B[e, c]
        and H[e, c] = A[u, c] need no variables.
        """
        b, t, slots = self.builder, self.tables.tensors[e], self.tables.slots
        for c in slots[t.u] if slots[t.u] == slots[t.v] else ():
            within = []
            for m, options in enumerate(self.tables.stored(t.u)):
                inside = self.inside[e, m, c] = b.literal(f"inside[{e},{m},{c}]")
                made = b.lies(t.u, options, c)
                b.clause("def_inside", [~inside, *made])
                b.clause("def_inside", [~inside, *self.read(e, options, c)])
                for literal in made:
                    b.clause("def_inside", [~literal, ~b.A[t.v, c], inside])
                within.append(inside)
            if not b.assume:
                before = [b.y[t.u, c - 1]] if c > slots[t.u].start else []
                b.clause("def_inside", [~b.y[t.v, c], *before, *within])

    def def_leaves(self, i: int, m: int, options: Alike) -> None:
        """What of copy i's output is written in c: once per tensor that isn't inside; ``physical``: once if any."""
        for c in self.tables.slots[i]:
            made = self.builder.lies(i, options, c)
            uses = [(made, self._there(e, m, c)) for e in self.tables.leaving[i]]
            self._move(("leaves", i, m, c), uses)

    def def_arrives(self, i: int, m: int, options: Alike) -> None:
        """What of copy i's output is read in c: once per tensor that isn't inside nor read in a layout that another one
        paid for; ``physical``: once if any."""
        for c in range(self.tables.count):
            tensors = [e for e in self.tables.leaving[i] if c in self.tables.slots[self.tables.tensors[e].v]]
            free = self.exchanged.free
            uses = [(self.read(e, options, c), self._there(e, m, c) + free.get((e, m, c), [])) for e in tensors]
            self._move(("arrives", i, m, c), uses)

    def _there(self, e: int, m: int, c: int) -> list[Literal]:
        """inside[e, m, c], where there is one."""
        return [self.inside[e, m, c]] if (e, m, c) in self.inside else []

    def _move(self, key: tuple[str, int, int, int], uses: list[tuple[list[Literal], list[Literal]]]) -> None:
        if not uses:
            return
        if not self.tables.multicast or len(uses) == 1:
            self.moves[key] = [(1, literal) for literals, _ in uses for literal in literals]
            self.moves[key] += [(-1, literal) for _, without in uses for literal in without]
            return
        once = self.builder.literal(f"once[{','.join(map(str, key))}]")
        self.moves[key] = [(1, once)]
        for literals, without in uses:
            for literal in literals:
                self.builder.clause("def_moves", [~literal, once, *without])


class CpRows:
    """A ``CpModel`` that is being stated."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors, self.tables, self.builder = tensors, tensors.tables, tensors.builder

    def literal(self, name: str, *key: Any) -> Any:
        """A literal."""
        return self.builder.literal(f"{name}[{','.join(map(str, key))}]")

    def row(self, _: str, constraint: Any) -> None:
        """A row that holds always."""
        self.builder.model.add(constraint)

    def picked(self, i: int, options: Alike) -> Any:
        """[copy i is sharded as in one of ``options``]."""
        return 1 if len(options) == len(self.tables.options(i)) else sum(self.builder.s[i, o] for o in options)

    def lies(self, i: int, options: Alike, c: int) -> Any:
        """[copy i lies in c, sharded as in one of ``options``]."""
        return sum(self.builder.lies(i, options, c))

    def upto(self, i: int, c: int) -> Any:
        """[copy i lies in a partition <= c]."""
        return self.builder.upto(i, c)

    def paired(self, e: int, g: int, h: int, c: int) -> Any:
        """[v of tensor e lies in c under its options h, and u anywhere under g]."""
        return sum(self.tensors.paired(e, g, h, c))
