"""What kernels that run one by one take beside their own options, exactly: tables over the options of other kernels.

Where a tensor has many readers, a kernel's part of the exchanges depends on all those before it. So there are variables
beside the kernels' options, with few values each: what is present after a reader, which sums occur up to a member.
*Rules* say which values go together (``docs/families/dataflow-unfused.md``, "Exchanges").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.dataflow.added import Added
from chipmap.instances.dataflow.batch import in_flight, layers_per_stage
from chipmap.instances.dataflow.present import Shared
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray

#: Added products up to which the adder's table is over all their options.
DIRECT = 3
#: Choices of a tensor's maker and readers up to which a reader's part is over all of them; where that makes too large
#: tables.
ALL_READERS, FEW_READERS = 512, 64
#: Which later kernels use a copy for which one pays: none, forward kernels alone (told apart where what a backward one
#: uses is saved, and DRAM is limited), any.
UNUSED, NEAR, USED = 0, 1, 2
#: A layout that is present, and whether it is used.
Present = tuple[int, int]


class Read(NamedTuple):
    """A tensor that a kernel reads, by the options of its ``maker``: picoseconds of DRAM, bytes of SRAM, and for each
    option of the reader [maker's, reader's] picoseconds of the change of layout."""

    maker: int
    dram: IntArray
    held: IntArray
    converts: IntArray


class Part(NamedTuple):
    """Picoseconds of DRAM and of the network, and bytes of SRAM, that a kernel takes for the values of the variables of
    ``scope``."""

    scope: tuple[int, ...]
    memory: IntArray
    network: IntArray
    held: IntArray


class Rule(NamedTuple):
    """Which values of the variables of ``scope`` go together."""

    scope: tuple[int, ...]
    allowed: NDArray[np.bool_]


class Extra(NamedTuple):
    """Bytes that are kept in DRAM for good, or picoseconds per batch, for the values of the variables of ``scope``."""

    scope: tuple[int, ...]
    column: str
    values: IntArray


class Parts:
    """The parts of all kernels of a problem, one by one.

    Variables 0 … are the options of the kernels (of all layers), those behind are others, with ``sizes`` values each.
    ``of[v]`` are the parts of kernel v. ``extras`` is what the values decide for the batch.
    """

    def __init__(
        self, problem: DataflowProblem, reads: Sequence[Sequence[Read]], sizes: Sequence[int], few: bool = False
    ) -> None:
        self.problem, self.sizes = problem, list(sizes)
        self.all_readers = FEW_READERS if few else ALL_READERS
        self.rules, self.extras = list[Rule](), list[Extra]()
        self.of: list[list[Part]] = [[] for _ in sizes]
        self._reads = {(read.maker, v): read for v, some in enumerate(reads) for read in some}
        for shared in problem.shared:
            for readers in _within_reach(problem, shared):
                self._present(shared, readers)
        for k in range(0, len(sizes), problem.n):
            for added in problem.added:
                self._sums(added, k)
                self._changes(added, k)
            for use in problem.uses:
                if use.network.any():
                    self._part(k + use.user, (k + use.owner, k + use.user), network=use.network)
                if use.after.any():
                    self.extras.append(Extra((k + use.owner, k + use.user), "after", use.after - use.after.min()))
        for (u, v), read in self._reads.items():
            self._part(v, (u, v), read.dram[:, None], read.converts, read.held[:, None])

    def _variable(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _part(
        self,
        v: int,
        scope: tuple[int, ...],
        memory: IntArray | int = 0,
        network: IntArray | int = 0,
        held: IntArray | int = 0,
    ) -> None:
        shape = [self.sizes[w] for w in scope]
        self.of[v].append(Part(scope, *(np.broadcast_to(one, shape) for one in (memory, network, held))))

    def _present(self, shared: Shared, readers: Sequence[int]) -> None:
        """The parts of the ``readers`` (their numbers in ``shared``) of a tensor that may read each other's layouts.

        Variables: what is present behind each reader, and which of the things that it may take under its option it
        takes.
        """
        u, links = shared.maker, list[tuple[int, Read, IntArray]]()
        paying = [k for k in readers if self._reads[u, shared.readers[k]].converts.any()]
        for k in paying if len(paying) > 1 else ():
            links.append((shared.readers[k], self._reads.pop((u, shared.readers[k])), shared.needs[k]))
        if prod(self.sizes[w] for w in (u, *(v for v, _, _ in links))) <= self.all_readers:
            self._at_once(shared, links)
            return
        states: dict[tuple[Present, ...], int] = {(): 0}
        before, later = -1, [set[int]()]
        for _, one, wanted in reversed(links):
            later.append(later[-1] | {int(m) for m in wanted[one.converts.any(axis=0)]})
        for (v, read, needs), needed in zip(links, later[-2::-1], strict=True):
            link = _Link(self, shared, v, read, needs, needed)
            link.follow(states)
            taken = self._variable(max(1, *map(len, link.taken)))
            after = self._variable(len(link.states))
            scope = (u, v, taken, *((before,) if before >= 0 else ()), after)
            allowed = np.zeros([self.sizes[w] for w in scope], np.bool_)
            for o, s, t, x, y in link.entries:
                allowed[(o, t, x, *((s,) if before >= 0 else ()), y)] = True
            self.rules.append(Rule(scope, allowed))
            columns = np.zeros((4, self.sizes[v], self.sizes[taken]), np.int64)
            for t, own in enumerate(link.taken):
                for values, x in own.items():
                    columns[:, t, x] = values
            self._part(v, (v, taken), *columns[:3])
            if columns[3].any():
                self.extras.append(Extra((v, taken), "kept", columns[3]))
            states, before = link.states, after

    def _at_once(self, shared: Shared, links: Sequence[tuple[int, Read, IntArray]]) -> None:
        """The parts of some readers of a tensor, over the options of its maker and of all of them."""
        scope = (shared.maker, *(v for v, _, _ in links))
        shape, count = [self.sizes[w] for w in scope], len(links)
        kernels = self.problem.instance.workload.kernels
        late = [kernels[v].phase == "backward" for v, _, _ in links]

        def wide(values: NDArray[Any], *axes: int) -> NDArray[Any]:
            return np.broadcast_to(values.reshape([n if k in axes else 1 for k, n in enumerate(shape)]), shape)

        needs = [wide(needs, k + 1) for k, (_, _, needs) in enumerate(links)]
        network = [wide(read.converts, 0, k + 1) for k, (_, read, _) in enumerate(links)]
        found = dict(zip(shared.readers, shared.supplies, strict=True))
        supplies = [wide(found[v], 0, k + 1) for k, (v, _, _) in enumerate(links)]
        supplier = [np.full(shape, -1) for _ in links]
        for k in range(count):
            for j in reversed(range(k)):
                serves = supplies[j] & (network[j] > 0) & (network[k] > 0) & shared.covers[needs[j], needs[k]]
                supplier[k] = np.where(serves, j, supplier[k])
        copies = np.array(shared.copies, dtype=np.int64).reshape(-1, 3)
        saves = _saves(self.problem)
        for k, (v, read, _) in enumerate(links):
            source = np.choose(np.maximum(supplier[k], 0), needs)
            supplied = supplier[k] >= 0
            used = np.any([one == k for one in supplier], axis=0)
            dram, buffer = (np.where(used, copies[needs[k], c], 0) for c in (0, 1))
            memory = np.where(supplied, copies[source, 0], wide(read.dram, 0)) + dram
            held = np.where(supplied, 2 * copies[source, 1], wide(read.held, 0)) + 2 * buffer
            self._narrow(v, scope, memory, np.where(supplied, 0, network[k]), held)
            backward = [one == k for one, other in zip(supplier, late, strict=True) if other]
            if saves and not late[k] and backward:
                size = np.array([ceil(copy.size * saves) for copy in shared.copies], dtype=np.int64)[needs[k]]
                kept = np.where(np.any(backward, axis=0), size, 0)
                if kept.any():
                    self.extras.append(Extra(scope, "kept", kept))

    def _narrow(self, v: int, scope: tuple[int, ...], *columns: IntArray) -> None:
        """A part of kernel v, over those variables alone on which it depends."""
        for axis in reversed(range(len(scope))):
            first: list[IntArray] = [one.take([0], axis=axis) for one in columns]
            if scope[axis] != v and all(bool((one == begin).all()) for one, begin in zip(columns, first, strict=True)):
                columns = tuple(one.squeeze(axis) for one in first)
                scope = scope[:axis] + scope[axis + 1 :]
        self._part(v, scope, *columns)

    def _sums(self, added: Added, k: int) -> None:
        """The collectives of added products, which the last of them pays."""
        places = self.problem.places
        order = sorted(range(len(added.members)), key=lambda j: places[k + added.members[j]])
        values: list[frozenset[int]] = []
        variable = -1
        for j in order[:-1]:
            own = [frozenset({int(number)} - {-1}) for number in added.sums[j]]
            variable, values = self._joined((variable, values), (k + added.members[j], own))
        last, own = k + added.members[order[-1]], [frozenset({int(number)} - {-1}) for number in added.sums[order[-1]]]
        network = [[sum(added.ticks[number] for number in one | other) for other in own] for one in values]
        self._part(last, (variable, last), network=np.array(network, dtype=np.int64))

    def _changes(self, added: Added, k: int) -> None:
        """What the adder reads: it pays for the first product of each layout."""
        adder, members = k + added.adder, [k + u for u in added.members]
        values: list[frozenset[int]] = []
        variable, direct = -1, len(members) <= DIRECT
        for j, u in enumerate(members):
            read, layouts = self._reads.pop((u, adder)), added.layouts[j].tolist()
            if direct:
                scope = (*members[: j + 1], adder)
                shape = [self.sizes[w] for w in scope]
                fresh = np.ones(shape, np.bool_)
                for i in range(j):
                    alike = added.layouts[i][:, None] == added.layouts[j]
                    fresh &= ~alike.reshape([n if w in (i, j) else 1 for w, n in enumerate(shape)])
                where = [1] * j + [-1, 1]
                change = read.converts * fresh
                self._part(adder, scope, read.dram.reshape(where), change, read.held.reshape(where))
                continue
            if j:
                scope = (variable, u, adder)
                fresh = np.array([[own not in one for own in layouts] for one in values])
                change = fresh[:, :, None] * read.converts
                self._part(adder, scope, read.dram[None, :, None], change, read.held[None, :, None])
            else:
                self._part(adder, (u, adder), read.dram[:, None], read.converts, read.held[:, None])
            if j + 1 < len(members):
                own = [frozenset({number}) for number in layouts]
                variable, values = self._joined((variable, values), (u, own))

    def _joined(
        self, one: tuple[int, list[frozenset[int]]], other: tuple[int, list[frozenset[int]]]
    ) -> tuple[int, list[frozenset[int]]]:
        """A variable for what two others (below 0: none) come to together, with what each of its values means."""
        if one[0] < 0:
            return other
        numbers: dict[frozenset[int], int] = {}
        pairs = [[numbers.setdefault(a | b, len(numbers)) for b in other[1]] for a in one[1]]
        variable = self._variable(len(numbers))
        allowed = np.array(pairs)[:, :, None] == np.arange(len(numbers))
        self.rules.append(Rule((one[0], other[0], variable), allowed))
        return variable, list(numbers)


class _Link:
    """One reader v of a tensor that u makes: what it takes, and what is present behind it.

    ``states`` are the layouts that may be present, ``taken[t]`` what v takes under its option t (picoseconds of DRAM
    and of the network, bytes of SRAM and for good), both with numbers. ``entries`` are (option of u, state before,
    option of v, what it takes, state behind) that go together. ``later`` are the layouts that later readers may need.
    """

    def __init__(self, parts: Parts, shared: Shared, v: int, read: Read, needs: IntArray, later: set[int]) -> None:
        problem, kernels = parts.problem, parts.problem.instance.workload.kernels
        self.shared, self.read, self.needs, self.later = shared, read, needs.tolist(), later
        self.supplies = shared.supplies[shared.readers.index(v)].tolist()
        self.late = kernels[v].phase == "backward"
        self.saves = 0 if self.late else _saves(problem)
        self.states: dict[tuple[Present, ...], int] = {}
        self.taken: list[dict[tuple[int, ...], int]] = [{} for _ in self.needs]
        self.entries: list[tuple[int, int, int, int, int]] = []

    def follow(self, states: dict[tuple[Present, ...], int]) -> None:
        """From each of these ``states``, under all options."""
        converts, dram, held = self.read.converts.tolist(), self.read.dram.tolist(), self.read.held.tolist()
        for present, s in states.items():
            for t, m in enumerate(self.needs):
                for o in range(len(dram)):
                    for values, behind in self._ways(
                        present, m, (dram[o], converts[o][t], held[o]), self.supplies[o][t]
                    ):
                        x = self.taken[t].setdefault(values, len(self.taken[t]))
                        y = self.states.setdefault(self._useful(behind), len(self.states))
                        self.entries.append((o, s, t, x, y))

    def _ways(
        self, present: tuple[Present, ...], need: int, made: tuple[int, int, int], supplies: bool
    ) -> Iterator[tuple[tuple[int, int, int, int], tuple[Present, ...]]]:
        """What v may take, of a tensor that takes so much as it was ``made``, and what is present behind: its
        own layout where it ``supplies`` others if it pays.

        Nothing need make sure that a copy which is used later is: one that isn't costs less as such.
        """
        dram, change, held = made
        covers, copies = self.shared.covers, self.shared.copies
        if not change:
            yield (dram, 0, held, 0), present
            return
        for layout, used in present:
            if covers[layout, need]:
                if used == USED or (used == NEAR and not self.late):
                    yield (copies[layout].dram, 0, 2 * copies[layout].buffer, 0), present
                return
        if not supplies:
            yield (dram, change, held, 0), present
            return
        own = copies[need]
        yield (dram, change, held, 0), (*present, (need, UNUSED))
        for used in (NEAR, USED) if self.saves else (USED,):
            kept = ceil(own.size * self.saves) if used == USED and self.saves else 0
            yield (dram + own.dram, change, held + 2 * own.buffer, kept), (*present, (need, used))

    def _useful(self, present: tuple[Present, ...]) -> tuple[Present, ...]:
        """Of what is present that which a later reader may find first."""
        covers = self.shared.covers
        found = {next((one for one in present if covers[one[0], need]), None) for need in self.later}
        return tuple(one for one in present if one in found)


def _saves(problem: DataflowProblem) -> Fraction:
    """How many times a copy is kept that a forward kernel paid for and a backward one uses; 0 where DRAM has room."""
    if problem.instance.system.memory.capacity_bytes is None or problem.instance.task.keep != "step":
        return Fraction(0)
    return Fraction(layers_per_stage(problem.instance, problem.degrees) * in_flight(problem.instance, problem.degrees))


def _within_reach(problem: DataflowProblem, shared: Shared) -> Iterator[list[int]]:
    """The numbers of readers of a tensor of which a later one may read what an earlier one paid for."""
    keep, kernels = problem.instance.task.keep or "none", problem.instance.workload.kernels
    if keep == "none":
        return
    phases = [kernels[v].phase == "backward" if keep == "phase" else False for v in shared.readers]
    for late in (False, True):
        some = [k for k, phase in enumerate(phases) if phase == late]
        if len(some) > 1:
            yield some
