"""What the exact program over order ideals works on: the ideals of a layer, and the costs of kernels, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.dataflow.program.exchanges import Exchanges, Exchanging
from chipmap.heuristics.dataflow.program.label_setting import OPTIONS, Graph
from chipmap.heuristics.dataflow.program.lattice import TooWideError, with_deadline_checks
from chipmap.heuristics.dataflow.program.signature import Field, Fields, placed, rows
from chipmap.heuristics.dataflow.program.tile_sharing import tiles
from chipmap.heuristics.engines.ideals import IdealFamily, TooManyIdealsError, all_ideals, bits
from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.batch_time import BESIDE
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.pins import barred, names_partitions
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray, levels, wires
from chipmap.instances.dataflow.tiles import Shares
from chipmap.networks.graph import neighbours, topological

#: What stands in the sizes of groups for one whose kernels lie apart.
APART = -1
#: Columns of a graph that come from the options of its kernels.
_COLUMNS = ("compute", "collective", "dram", "buffer", "waits")
#: Columns of an option that are summed beside the partitions (None: the most that waits in DRAM).
OUTSIDE = ("kept", None, *BESIDE)


class Floor(NamedTuple):
    """A lower bound in picoseconds on the cost of kernels that are still to come.

    It is a sum: ``kernels`` has what each of them adds, ``edges`` what each tensor that it reads from an earlier
    partition adds, and ``constant`` stands for itself.
    """

    kernels: list[float]
    edges: list[float]
    constant: float


class IdealGraph:
    """A problem's layer (or ``layers`` layers in a row), its ideals listed once.

    With ``resident`` weights are never read from DRAM; with ``cached`` neither is what kernels fetch, KV caches that
    lie in SRAM. ``after`` are pairs of kernels, of which the second may not be in an earlier partition than the first:
    they come on top of the tensors and make the program a restriction. A search may make ``most_labels`` labels.
    Raises :class:`TooWideError` where there are more than ``limit`` ideals.
    """

    def __init__(
        self,
        problem: DataflowProblem,
        layers: int = 1,
        *,
        resident: bool = False,
        cached: bool = False,
        limit: int = 200_000,
        after: Sequence[tuple[int, int]] = (),
        most_labels: int = 2**62,
    ) -> None:
        self.problem, self.layers, self.resident, self.cached = problem, layers, resident, cached
        self.work = np.array([0, most_labels], dtype=np.int64)
        kernels = problem.instance.workload.kernels
        n, m = problem.n, len(problem.edges)
        wired = [(u, v, i % m if i < layers * m else -1) for i, (u, v) in enumerate(wires(problem, layers))]
        phases = [kernel.phase == "backward" for kernel in kernels] * layers
        self.order = topological(neighbours(n * layers, [*((u, v) for u, v, _ in wired), *after]), phases.__getitem__)
        place = {v: i for i, v in enumerate(self.order)}
        self.wired = [(place[u], place[v], e) for u, v, e in wired]
        self.forward = sum(not phases[v] for v in self.order)
        barrier = [(u, v) for u in range(self.forward) for v in range(self.forward, len(self.order))]
        plain = [*((u, v) for u, v, _ in self.wired), *((place[u], place[v]) for u, v in after)]
        producers = [0] * len(self.order)
        for u, v in plain + barrier if any(phases) else plain:
            producers[v] |= 1 << u
        self.lattice = self._ideals(producers, limit)
        self.graph = self._graph()

    def _ideals(self, producers: list[int], limit: int) -> IdealFamily:
        try:
            return all_ideals(producers, limit)
        except TooManyIdealsError:
            raise TooWideError(f"the graph has more than {limit:,} order ideals") from None

    def _graph(self) -> Graph:
        problem, order = self.problem, self.order
        options = [problem.options[v % problem.n] for v in order]
        flat = [option for one in options for option in one]
        columns = {name: np.array([getattr(o, name) for o in flat], dtype=np.int64) for name in _COLUMNS}
        n, lattice = len(order), self.lattice
        sources = np.array([u for u, _, _ in self.wired], dtype=np.int64)
        targets = np.array([v for _, v, _ in self.wired], dtype=np.int64)
        enter, entering = _rows(n, targets)
        leave, leaving = _rows(n, sources)
        readers = [sum({1 << int(targets[e]) for e in leaving[leave[u] : leave[u + 1]]}) for u in range(n)]
        open_sets = [[u for u in bits(ideal) if readers[u] & ~ideal] for ideal in with_deadline_checks(lattice.masks)]
        grouped, sizes = self._groups()
        if max(map(len, options)) > OPTIONS:
            raise TooWideError(f"a kernel has more than {OPTIONS} sharding schemes")
        fields, exchanges = self._known(options, readers)
        often = runs(problem.instance)
        times = [often[v % problem.n] for v in order]
        least = [[k * x for x in self._least(one)] for k, one in zip(times, options, strict=True)]
        return Graph(
            first=np.cumsum([0, *map(len, options)]).astype(np.int64),
            compute=columns["compute"],
            network=columns["collective"],
            memory=np.array([self._read(o) for o in flat], dtype=np.int64),
            held=np.array([o.weights + (o.cache if self.cached else 0) for o in flat], dtype=np.int64),
            dram=columns["dram"],
            buffer=columns["buffer"],
            enter=enter,
            entering=entering,
            leave=leave,
            leaving=leaving,
            source=sources,
            target=targets,
            waits=self._waits(),
            converts=self._converts(),
            fields=fields,
            exchanges=exchanges,
            sets=lattice.words,
            grow=lattice.first,
            by=lattice.added.astype(np.int64),
            into=lattice.target.astype(np.int64),
            open_first=np.cumsum([0, *map(len, open_sets)]).astype(np.int64),
            open=np.array([u for one in open_sets for u in one], dtype=np.int64),
            grouped=grouped,
            sizes=sizes,
            rest=_rest(np.array(least, dtype=np.int64), lattice),
            gate=lattice.masks.index((1 << self.forward) - 1) if 0 < self.forward < n else 0,
            tiles=tiles(self._shares(), problem.instance.system.chip.tiles, OPTIONS),
            waits_dram=columns["waits"],
            outside=_outside(options),
            runs=np.array(times, dtype=np.int64),
        )

    def _shares(self) -> list[tuple[Shares, ...]]:
        """Those of every copy of a kernel; none where a utilisation is given."""
        listed = self.problem.shares
        return [listed[v % self.problem.n] for v in self.order] if listed else []

    def _least(self, options: Sequence[Option]) -> tuple[int, int, int]:
        """Compute, memory and network that a kernel takes at least; where nothing overlaps, their sum and nothing."""
        memory = [self._read(o) for o in options]
        if not self.problem.instance.task.overlap:
            return min(o.compute + m + o.collective for o, m in zip(options, memory, strict=True)), 0, 0
        return min(o.compute for o in options), min(memory), min(o.collective for o in options)

    def _read(self, option: Option) -> int:
        """Picoseconds of DRAM that a kernel takes for weights and what it fetches."""
        if self.cached:
            return 0
        return option.fetch if self.resident else option.stream

    def _known(self, options: Sequence[Sequence[Option]], readers: Sequence[int]) -> tuple[Fields, Exchanges]:
        """What a signature says, and the exchanges that it decides."""
        n, at = len(self.order), [0] * len(self.order)
        for i, v in enumerate(self.order):
            at[v] = i
        slot, mask, fields = np.zeros(n, np.int64), np.zeros(n, np.int64), list[Field]()
        number = [-1] * n
        for u, choice in enumerate(options):
            if len(choice) > 1 and readers[u]:
                number[u] = len(fields)
                fields.append(Field((u,), tuple(bits(readers[u])), (len(choice) - 1).bit_length()))
        self.exchanging = exchanging = Exchanging(self.problem, at, self.wired, len(fields))
        fields += exchanging.fields
        self.exchanging_most = exchanging.most()
        known = self._known_together(fields)
        bit = placed(fields, known, self._asked_for(fields))
        #: For each ideal the bits that are known then of a signature.
        self.known_bits = known @ np.array([0 if one.passing else one.width for one in fields], dtype=np.int64)
        code = [[0] * len(choice) for choice in options]
        for u, f in enumerate(number):
            if f >= 0:
                slot[u], mask[u] = bit[f], (1 << fields[f].width) - 1
                code[u] = [o << bit[f] for o in range(len(options[u]))]
        for u, owner in exchanging.owners.items():
            if owner.field >= 0:
                code[u] = [own | case << bit[owner.field] for own, case in zip(code[u], owner.cases, strict=True)]
        begins: list[list[int]] = [[] for _ in range(n)]
        ends: list[list[int]] = [[] for _ in range(n)]
        for f, field in enumerate(fields):
            for v in field.until:
                ends[v].append(f)
            for v in field.of if field.passing else ():
                begins[v].append(f)
        taken = [((1 << field.width) - 1) << first for field, first in zip(fields, bit, strict=True)]
        passing = 0  # fields that are never known together have the same bits
        for own, field in zip(taken, fields, strict=True):
            passing |= own if field.passing else 0
        found = Fields(
            slot,
            mask,
            np.array([x for one in code for x in one], dtype=np.int64),
            *rows(ends),
            *rows([field.until for field in fields]),
            *rows(begins),
            np.array(taken, dtype=np.int64),
            ~passing,
        )
        return found, exchanging.arrays(bit, n, len(self.wired))

    def _known_together(self, fields: Sequence[Field]) -> NDArray[np.bool_]:
        """Which fields are known at which ideals [ideals, fields]."""
        inside = self._inside()
        known = np.zeros((len(inside), len(fields)), dtype=np.bool_)
        for f, field in enumerate(fields):
            known[:, f] = inside[:, list(field.of)].any(axis=1) & ~inside[:, list(field.until)].all(axis=1)
        return known

    def _asked_for(self, fields: Sequence[Field]) -> NDArray[np.bool_]:
        """Which layouts a kernel that may join next asks for, whether or not they can be present [ideals, fields]."""
        inside = self._inside()
        before: list[list[int]] = [[] for _ in self.order]
        for u, v, _ in self.wired:
            before[v].append(u)
        asked = np.zeros((len(inside), len(fields)), dtype=np.bool_)
        for f, field in enumerate(fields):
            for v in field.until if field.passing else ():
                asked[:, f] |= ~inside[:, v] & inside[:, before[v]].all(axis=1)
        return asked

    @property
    def combinations(self) -> int:
        """An upper bound on the signatures of an ideal."""
        return int(2 ** min(20, int(self.known_bits.max(initial=0))))

    def _inside(self) -> NDArray[np.bool_]:
        """The kernels of each ideal [ideals, kernels]."""
        n = len(self.order)
        return np.unpackbits(self.lattice.words.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(np.bool_)

    def _waits(self) -> IntArray:
        level = levels(len(self.order), np.array([(u, v) for u, v, _ in self.wired], dtype=np.int64).reshape(-1, 2))
        return np.array([level[v] - level[u] + 1 for u, v, _ in self.wired], dtype=np.int64)

    def _converts(self) -> IntArray:
        problem = self.problem
        table = np.zeros((len(self.wired), OPTIONS, OPTIONS), dtype=np.int64)
        for i, (u, v, _) in enumerate(self.wired):
            a, b = self.order[u] % problem.n, self.order[v] % problem.n
            for s in range(len(problem.options[a])):
                for t in range(len(problem.options[b])):
                    table[i, s, t] = problem.converts(a, b, s, t)
        return table

    def _groups(self) -> tuple[IntArray, IntArray]:
        task = self.problem.instance.task
        groups = [*self._copies(task.together), *(sum(self._copies([group])) for group in task.apart)]
        sizes = [group.bit_count() if i < len(groups) - len(task.apart) else APART for i, group in enumerate(groups)]
        return self._counts(groups), np.array(sizes, dtype=np.int64)

    def _copies(self, groups: Iterable[Iterable[str]]) -> list[int]:
        """The copies of each group of kernels as a set of places, layer by layer."""
        index = {kernel.name: v for v, kernel in enumerate(self.problem.instance.workload.kernels)}
        place = {v: i for i, v in enumerate(self.order)}
        return [
            sum(1 << place[k * self.problem.n + index[name]] for name in group)
            for k in range(self.layers)
            for group in groups
        ]

    def _counts(self, sets: Sequence[int]) -> IntArray:
        """How many kernels of each set are in each ideal [ideals, sets]."""
        counts = [[(ideal & one).bit_count() for one in sets] for ideal in with_deadline_checks(self.lattice.masks)]
        return np.array(counts, dtype=np.int64).reshape(len(self.lattice.masks), len(sets))

    def barred(self) -> IntArray:
        """How many kernels of each ideal may not lie in the partition of each index [ideals, indexes], the last one and
        all that are larger; no indexes where kernels may lie in all."""
        if not names_partitions(self.problem.instance):
            return np.zeros((1, 0), dtype=np.int64)
        beyond, kernels = barred(self.problem.instance)
        named = [[name for name, indexes in kernels.items() if k in indexes] for k in range(beyond + 1)]
        return self._counts([sum(self._copies([one])) for one in named])

    def bound_rest(self, floor: Floor) -> None:
        """Bound the time of what is left after each ideal by ``floor`` too, where only whole partitions are left."""
        inside = self._inside().astype(np.float64)
        rest = (1 - inside) @ np.array([floor.kernels[v] for v in self.order]) + floor.constant
        for u, v, e in self.wired:
            if floor.edges[e]:
                rest += floor.edges[e] * inside[:, u] * (1 - inside[:, v])
        floors = np.floor(rest).astype(np.int64)
        floors[-1] = 0
        self.graph = self.graph._replace(rest=np.column_stack([self.graph.rest, floors]))


def _outside(options: Sequence[Sequence[Option]]) -> IntArray:
    """Rows of :data:`OUTSIDE` for all options, less the least of each kernel's."""
    rows = [
        [getattr(o, field) - min(getattr(other, field) for other in one) if field else 0 for field in OUTSIDE]
        for one in options
        for o in one
    ]
    return np.array(rows, dtype=np.int64)


def _rest(least: IntArray, lattice: IdealFamily) -> IntArray:
    """For each ideal what the kernels outside it take at least of each resource (columns of ``least``)."""
    return np.array(
        [least.sum(axis=0) - least[bits(ideal)].sum(axis=0) for ideal in with_deadline_checks(lattice.masks)],
        dtype=np.int64,
    )


def _rows(n: int, ends: IntArray) -> tuple[IntArray, IntArray]:
    """CSR rows of the edges by an end."""
    order = np.argsort(ends, kind="stable").astype(np.int64)
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64), order
