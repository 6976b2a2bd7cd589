"""What kernels pay for layouts, sums and parameters as it depends on what ran before, as arrays for the program over
ideals.

The rules are those of ``docs/families/dataflow-exchanges.md``, as in :mod:`chipmap.instances.dataflow.exchanged`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.dataflow.program.signature import Field, rows
from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.present import Shared
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray
from chipmap.instances.dataflow.resting import Use

#: Options of a kernel.
_OPTIONS = 8


class Exchanges(NamedTuple):
    """Numbers beyond those of options and pairs of them.

    *Parameters.* The uses of kernel v are ``enter[v]`` … ``enter[v+1]-1``. What rests is one of a few cases, which the
    bits of ``mask`` from ``slot`` on tell. For the case and the user's option, ``network`` are picoseconds each time
    that v runs, ``after`` those per batch beyond the least, ``held`` bytes of DRAM [uses, 8, 8].

    *Sums.* The group that kernel v is a ``member`` of, and that it is the ``adder`` of (-1: none), has
    ``members[group[g]]`` …. An option asks for the collective with the bit ``kind`` (0: none) and leaves the ``layout``
    of that number; ``sums[g, kinds]`` are picoseconds of several.

    *Present.* Kernel v pays for the change of edge e under its option unless one of the bits ``covering[e, option]`` is
    in the signature; then ``present[e, maker's option, option]`` is, too (0 where it exchanges sums of copies).
    """

    enter: IntArray
    slot: IntArray
    mask: IntArray
    network: IntArray
    after: IntArray
    held: IntArray
    member: IntArray
    adder: IntArray
    group: IntArray
    members: IntArray
    kind: IntArray
    layout: IntArray
    sums: IntArray
    covering: IntArray
    present: IntArray
    owner: IntArray
    at: IntArray
    cases: IntArray
    users: IntArray
    user: IntArray
    dearer: IntArray
    beside: NDArray[np.bool_]


class Owner(NamedTuple):
    """A kernel whose parameters others use: the case of each of its options, and its field in a signature (-1: there
    is but one case)."""

    cases: tuple[int, ...]
    field: int


class Exchanging:
    """The exchanges of a problem's ``layers``, of which ``place`` has the places of kernels, and the ``fields`` that
    they take, numbered from ``first`` on."""

    def __init__(
        self, problem: DataflowProblem, place: Sequence[int], wired: Sequence[tuple[int, int, int]], first: int
    ) -> None:
        self.problem, self.place, self.n = problem, place, problem.n
        self.copies = [place[k : k + problem.n] for k in range(0, len(place), problem.n)]
        self.edge = {(u, v): e for e, (u, v, _) in enumerate(wired)}
        self.first, self.fields = first, list[Field]()
        #: By place of an owner of parameters.
        self.owners: dict[int, Owner] = {}
        #: (edge, option) -> numbers of the fields of layouts that cover what is needed.
        self.covering: dict[tuple[int, int], list[int]] = {}
        #: (edge, maker's option, option) -> that of the layout itself, where who pays has it for others.
        self.present: dict[tuple[int, int, int], int] = {}
        for at in self.copies:
            self._parameters(at)
            for shared in problem.shared:
                self._layouts(shared, at)

    def _parameters(self, at: Sequence[int]) -> None:
        by_owner: dict[int, list[Use]] = {}
        for use in self.problem.uses:
            by_owner.setdefault(use.owner, []).append(use)
        for u, uses in by_owner.items():
            numbers: dict[bytes, int] = {}
            keys = [
                b"".join(column[o].tobytes() for use in uses for column in (use.network, use.after, use.held))
                for o in range(len(self.problem.options[u]))
            ]
            cases = tuple(numbers.setdefault(key, len(numbers)) for key in keys)
            self.owners[at[u]] = Owner(cases, self.first + len(self.fields) if len(numbers) > 1 else -1)
            if len(numbers) > 1:
                width = (len(numbers) - 1).bit_length()
                self.fields.append(Field((at[u],), tuple(sorted({at[use.user] for use in uses})), width))

    def _layouts(self, shared: Shared, at: Sequence[int]) -> None:
        """A field for each layout that a reader may pay for and a later one of its partition may use."""
        problem, u, again = self.problem, shared.maker, runs(self.problem.instance)
        phase = [kernel.phase for kernel in problem.instance.workload.kernels]
        pays = [
            [any(problem.converts(u, v, s, o) for s in range(len(problem.options[u]))) for o in range(len(own))]
            for v, own in zip(shared.readers, shared.needs, strict=True)
        ]
        found: dict[tuple[int, str, int], tuple[set[int], set[int]]] = {}
        for j, v in enumerate(shared.readers):
            for i, r in enumerate(shared.readers[:j]):
                if (phase[r], again[r]) != (phase[v], again[v]):
                    continue
                for a in {int(need) for need, pay in zip(shared.needs[i], pays[i], strict=True) if pay}:
                    if any(pay and shared.covers[a, b] for b, pay in zip(shared.needs[j], pays[j], strict=True)):
                        makers, users = found.setdefault((a, phase[v], again[v]), (set(), set()))
                        makers.add(at[r])
                        users.add(at[v])
        for (layout, one, often), (makers, users) in found.items():
            number = self.first + len(self.fields)
            self.fields.append(Field(tuple(sorted(makers)), tuple(sorted(users)), 1, passing=True))
            for v, own, supplies in zip(shared.readers, shared.needs, shared.supplies, strict=True):
                if (phase[v], again[v]) == (one, often):
                    e = self.edge[at[u], at[v]]
                    for o, need in enumerate(own.tolist()):
                        if shared.covers[layout, need] and at[v] in users:
                            self.covering.setdefault((e, o), []).append(number)
                        if need == layout and at[v] in makers:
                            for s in np.flatnonzero(supplies[:, o]).tolist():
                                self.present[e, s, o] = number

    def arrays(self, bit: Sequence[int], kernels: int, edges: int) -> Exchanges:
        """The arrays for so many kernels and edges, the fields of signatures beginning at these bits."""
        covering = np.zeros((edges, _OPTIONS), np.int64)
        present = np.zeros((edges, _OPTIONS, _OPTIONS), np.int64)
        for (e, o), numbers in self.covering.items():
            for number in numbers:
                covering[e, o] |= 1 << bit[number]
        for ends, number in self.present.items():
            present[ends] = 1 << bit[number]
        return Exchanges(*[*self._uses(bit, kernels), *self._sums(kernels), covering, present, *self._cases(bit)])

    def _uses(self, bit: Sequence[int], kernels: int) -> list[IntArray]:
        by_user: list[list[tuple[int, Use]]] = [[] for _ in range(kernels)]
        for at in self.copies:
            for use in self.problem.uses:
                by_user[at[use.user]].append((at[use.owner], use))
        listed = [one for some in by_user for one in some]
        slot, mask = np.zeros(len(listed), np.int64), np.zeros(len(listed), np.int64)
        tables = np.zeros((3, len(listed), _OPTIONS, _OPTIONS), np.int64)
        for k, (u, use) in enumerate(listed):
            cases, field = self.owners[u]
            if field >= 0:
                slot[k], mask[k] = bit[field], (1 << (max(cases)).bit_length()) - 1
            columns = use.network, use.after - use.after.min(), use.held
            for o, case in enumerate(cases):
                for table, column in zip(tables, columns, strict=True):
                    table[k, case, : column.shape[1]] = column[o]
        first = np.cumsum([0, *map(len, by_user)]).astype(np.int64)
        return [first, slot, mask, *tables]

    def _cases(self, bit: Sequence[int]) -> list[Any]:
        several = {u: owner for u, owner in self.owners.items() if owner.field >= 0}
        shape = len(several), _OPTIONS, _OPTIONS
        dearer, beside = np.zeros(shape, np.int64), np.ones(shape, np.bool_)
        of = {place: v for at in self.copies for v, place in enumerate(at)}
        again, fields = runs(self.problem.instance), [self.fields[one.field - self.first] for one in several.values()]
        for i, (u, owner) in enumerate(several.items()):
            for use in self.problem.uses:
                for a, case in enumerate(owner.cases) if use.owner == of[u] else ():
                    for b, other in enumerate(owner.cases):
                        more = int((use.network[a] - use.network[b]).max())
                        if owner.cases.index(case) == a and owner.cases.index(other) == b:
                            dearer[i, case, other] += again[use.user] * max(0, more)
                        worse = (use.after[a] > use.after[b]).any() or (use.held[a] > use.held[b]).any()
                        beside[i, case, other] &= not worse
        masks = [(1 << one.width) - 1 for one in fields]
        slots = [bit[one.field] for one in several.values()]
        columns = [np.array(some, dtype=np.int64) for some in (list(several), slots, masks)]
        return [*columns, *rows([one.until for one in fields]), dearer, beside]

    def _sums(self, kernels: int) -> list[IntArray]:
        problem, order = self.problem, np.argsort(np.array(self.place, dtype=np.int64))
        member, adder = np.full(kernels, -1, np.int64), np.full(kernels, -1, np.int64)
        options = [len(problem.options[int(v) % self.n]) for v in order]
        first = np.cumsum([0, *options])
        kind, layout = np.zeros(int(first[-1]), np.int64), np.full(int(first[-1]), -1, np.int64)
        groups, ticks = list[list[int]](), list[list[int]]()
        for at in self.copies:
            for added in problem.added:
                adder[at[added.adder]] = len(groups)
                for u, sums, layouts in zip(added.members, added.sums, added.layouts, strict=True):
                    begin, end = first[at[u]], first[at[u] + 1]
                    member[at[u]] = len(groups)
                    kind[begin:end], layout[begin:end] = np.where(sums >= 0, 1 << np.maximum(sums, 0), 0), layouts
                groups.append([at[u] for u in added.members])
                ticks.append([sum(t for i, t in enumerate(added.ticks) if kinds >> i & 1) for kinds in range(_OPTIONS)])
        sums = np.array(ticks, np.int64).reshape(-1, _OPTIONS)
        return [member, adder, *rows(groups), kind, layout, sums]

    def most(self) -> int:
        """More picoseconds than all of it takes."""
        uses = sum(int(use.network.max()) for use in self.problem.uses)
        return len(self.copies) * (uses + sum(sum(added.ticks) for added in self.problem.added))
