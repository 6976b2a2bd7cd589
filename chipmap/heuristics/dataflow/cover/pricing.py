"""Pricing: one partition of a mapping as a small integer program, over counts of kernels per class.

A partition's time depends on its own kernels, their schemes, and the schemes of those outside whose outputs it reads.
Every partition that obeys C2, C3 and C5 and could be part of some mapping is a solution of the program. The program
drops which kernels of a branch belong to one copy, and of order (C1) keeps what it asks of a partition by itself
(:mod:`chipmap.heuristics.dataflow.cover.convexity`). So the least of ``time - prices`` over its solutions is a lower
bound over all partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.dataflow.cover.changes import Changes
from chipmap.heuristics.dataflow.cover.convexity import between, chains
from chipmap.heuristics.dataflow.symmetric.classes import Classes, Link
from chipmap.instances.dataflow.batch import forward_runs

Floats = NDArray[np.float64]
#: A column's name: ("x", class, option), ("in"/"both", link, made, taken), ("write"/"read", class, stored), ("time",).
Name = tuple[str | int, ...]
#: A row low <= Σ factor · column <= high: the factors by column, low, high.
Row = tuple[dict[int, float], float, float]
#: Makes an integer program that is solved again under other costs, from the upper bounds of its columns, which of them
#: are integer, and its rows: :class:`chipmap.solvers.repeated.Repeated` says what it does.
IntegerSolver = Callable[[Sequence[float], Sequence[bool], Sequence[Row]], Any]
#: Kernel counts have to be this near to whole ones.
NEAR = 1e-6


class Partition(NamedTuple):
    """A partition: its time in units, and how often it has each kernel and option, and what crosses its border.

    ``kernels`` by (class, option); ``crosses`` by (link, made): tensors read from outside less those that leave.
    """

    time: float
    kernels: dict[tuple[int, int], int]
    crosses: dict[tuple[int, int], float]


class Prices(NamedTuple):
    """Dual prices: of each class, of crossing tensors, and of a partition in each phase."""

    covers: Floats
    matches: dict[tuple[int, int], float]
    each: dict[bool, float]


def covered(part: Partition, prices: Prices) -> float:
    """The prices of what a partition has."""
    kernels = sum(float(prices.covers[c]) * count for (c, _), count in part.kernels.items())
    return kernels + sum(prices.matches[pair] * value for pair, value in part.crosses.items())


class PricingProgram:
    """The program for partitions of one phase. ``unit``: picoseconds per unit of time."""

    def __init__(
        self, classes: Classes, backward: bool, unit: float, *, resident: bool = False, cached: bool = False
    ) -> None:
        self.classes, self.backward, self.unit = classes, backward, unit
        self.physical = classes.problem.instance.mode == "physical"
        self.names: dict[Name, int] = {}
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.rows: list[Row] = []
        self.inside = [c for c in range(len(classes.kernels)) if classes.backward[c] == backward]
        self.links = [(e, link) for e, link in enumerate(classes.links) if self._near(link)]
        self._declare()
        self._tensors()
        self._moves()
        self._changes()
        self._resources(resident, cached)
        self._fusion()
        self._order()

    def _near(self, link: Link) -> bool:
        return self.backward in (self.classes.backward[link.u], self.classes.backward[link.v])

    def _add(self, name: Name, upper: float, integer: bool) -> int:
        self.names[name] = len(self.upper)
        self.upper.append(upper)
        self.integer.append(integer)
        return self.names[name]

    def _row(self, terms: Iterable[tuple[int, float]], low: float, high: float) -> None:
        row: dict[int, float] = {}
        for column, factor in terms:
            row[column] = row.get(column, 0.0) + factor
        self.rows.append((row, low, high))

    def kernels_of(self, c: int, options: Iterable[int] | None = None, factor: float = 1.0) -> list[tuple[int, float]]:
        """``factor`` times the number of kernels of class c with one of ``options`` in the partition."""
        chosen = range(len(self.classes.options(c))) if options is None else options
        return [(self.names["x", c, o], factor) for o in chosen if ("x", c, o) in self.names]

    def _declare(self) -> None:
        self._add(("time",), np.inf, False)
        for c in self.inside:
            for o in range(len(self.classes.options(c))):
                self._add(("x", c, o), self.classes.size(c), True)
            self._row(self.kernels_of(c), 0.0, self.classes.size(c))
        for e, link in self.links:
            if self.classes.backward[link.v] == self.backward:
                for g in range(len(link.made)):
                    for h in range(len(link.taken)):
                        self._add(("in", e, g, h), link.tensors, False)
                        if self.classes.backward[link.u] == self.backward:
                            self._add(("both", e, g, h), link.tensors, False)

    def _parts(self, kind: str, e: int, g: int | None = None, h: int | None = None) -> list[tuple[int, float]]:
        """The columns of tensors of link e that come in from outside (``in``) or have both ends here (``both``)."""
        link = self.classes.links[e]
        names = [(kind, e, a, b) for a in range(len(link.made)) for b in range(len(link.taken))]
        wanted = [name for name in names if g in (None, name[2]) and h in (None, name[3])]
        return [(self.names[name], 1.0) for name in wanted if name in self.names]

    def _tensors(self) -> None:
        """Every tensor that is read here has its maker inside or outside; those made here have readers in or out."""
        for e, link in self.links:
            each_u, each_v = link.tensors / self.classes.size(link.u), link.tensors / self.classes.size(link.v)
            for h, taken in enumerate(link.taken):
                parts = [*self._parts("in", e, h=h), *self._parts("both", e, h=h)]
                if parts:
                    self._row([*parts, *self.kernels_of(link.v, taken, -each_v)], 0.0, 0.0)
            if self.classes.backward[link.u] == self.backward:
                for g, made in enumerate(link.made):
                    self._row([*self._parts("both", e, g), *self.kernels_of(link.u, made, -each_u)], -np.inf, 0.0)
                self._row([*self._parts("in", e), *self.kernels_of(link.u, None, each_u)], -np.inf, link.tensors)

    def leaving(self, e: int, g: int) -> list[tuple[int, float]]:
        """How many tensors of link e, their makers sharded as in g, leave the partition."""
        link = self.classes.links[e]
        each = link.tensors / self.classes.size(link.u)
        return [*self.kernels_of(link.u, link.made[g], each), *((j, -a) for j, a in self._parts("both", e, g))]

    def _moves(self) -> None:
        """Transfers over the border: per tensor, or (mode ``physical``) once per maker however many its readers are.

        ``write`` and ``read`` are whole numbers where several readers share one.
        """
        self.moved: list[tuple[list[tuple[int, float]], int, int]] = []
        readers: dict[int, int] = {}
        for _, link in self.links:
            readers[link.u] = readers.get(link.u, 0) + link.tensors // self.classes.size(link.u)
        shared: dict[tuple[str, int, int, int], int] = {}
        for e, link in self.links:
            options = self.classes.options(link.u)
            for g, made in enumerate(link.made):
                dram, buffer = options[made[0]].dram, options[made[0]].buffer
                for kind, parts in (("read", self._parts("in", e, g)), ("write", self.leaving(e, g))):
                    if not parts:
                        continue
                    if not self.physical or readers[link.u] == 1:
                        self.moved.append((parts, dram, buffer))
                        continue
                    key = (kind, link.u, dram, buffer)
                    if key not in shared:
                        shared[key] = self._add(key, self.classes.size(link.u), True)
                        self.moved.append(([(shared[key], 1.0)], dram, buffer))
                    each = link.tensors / self.classes.size(link.u)
                    self._row([*parts, (shared[key], -each)], -np.inf, 0.0)

    def _changes(self) -> None:
        """Changes of layout: each reader's own, or the dearest of those that several readers or products may share.

        The readers of a tensor pay at least for the dearest need of one of them: a whole number ``pays`` of makers has
        readers of a class with that need. A kernel that adds up products pays at least for the dearest one.
        """
        self.changes: list[tuple[int, float]] = []
        for e, link in self.links:
            if self.classes.backward[link.v] != self.backward or not any(map(any, link.converts)):
                continue
            parts = [[self._read(e, g, h) for h in range(len(link.taken))] for g in range(len(link.made))]
            prices = [[price / self.unit for price in row] for row in link.converts]
            if link.payers == "reader":
                rows = [zip(own, row, strict=True) for own, row in zip(parts, prices, strict=True)]
                self.changes += [(j, a * price) for row in rows for part, price in row for j, a in part]
                continue
            at = link.u if link.payers == "readers" else link.v
            if ("change", link.payers, at) not in self.names:
                self.changes.append((self._add(("change", link.payers, at), np.inf, False), 1.0))
            whole = self.names["change", link.payers, at]
            each = link.tensors / self.classes.size(at)
            rows_of: list[list[tuple[int, float]]] = [[] for _ in link.taken]
            for g, row in enumerate(prices):
                for h, price in enumerate(row):
                    if link.payers == "readers" and each > 1 and price:
                        pays = self._add(("pays", e, g, h), self.classes.size(at), True)
                        self._row([*parts[g][h], (pays, -each)], -np.inf, 0.0)
                        rows_of[h].append((pays, price))
                    elif price:
                        rows_of[h] += [(j, a * price / each) for j, a in parts[g][h]]
            if link.payers == "adder":
                rows_of = [[one for own in rows_of for one in own]]
            for own in rows_of:
                self._row([*own, (whole, -1.0)], -np.inf, 0.0)

    def _read(self, e: int, g: int, h: int) -> list[tuple[int, float]]:
        """How many tensors of link e, their makers sharded as in g, are read as in h."""
        return [*self._parts("in", e, g, h), *self._parts("both", e, g, h)]

    def _resources(self, resident: bool, cached: bool) -> None:
        """C2 (with KV caches where these stay), and compute, memory and network, each or in sum, with the launch at
        most the time."""
        instance = self.classes.problem.instance
        time = (self.names["time",], -1.0 / (1 if self.backward else forward_runs(instance)))
        launch = self.classes.problem.launch / self.unit
        each = [(c, o, option) for c in self.inside for o, option in enumerate(self.classes.options(c))]
        x = [self.names["x", c, o] for c, o, _ in each]
        read = [0 if cached else o.fetch if resident else o.stream for _, _, o in each]
        memory = [(j, time_read / self.unit) for j, time_read in zip(x, read, strict=True)]
        memory += [(j, a * dram / self.unit) for parts, dram, _ in self.moved for j, a in parts]
        network = [(j, o.collective / self.unit) for j, (_, _, o) in zip(x, each, strict=True)]
        scale = float(self.classes.problem.sram)
        held = [(j, (o.weights + (o.cache if cached else 0)) / scale) for j, (_, _, o) in zip(x, each, strict=True)]
        held += [(j, 2 * a * buffer / scale) for parts, _, buffer in self.moved for j, a in parts]
        for e, link in self.links:
            for g, made in enumerate(link.made):
                buffer = self.classes.options(link.u)[made[0]].buffer
                held += [(j, link.waits * buffer / scale) for j, _ in self._parts("both", e, g)]
        network += self.changes
        compute = [(j, o.compute / self.unit) for j, (_, _, o) in zip(x, each, strict=True)]
        for terms in (compute, memory, network) if instance.task.overlap else ([*compute, *memory, *network],):
            self._row([*terms, time], -np.inf, -launch)
        self._row(held, -np.inf, 1.0 + 1e-9)

    def _fusion(self) -> None:
        """C4 where kernels aren't fused, C5, and at least one kernel."""
        instance = self.classes.problem.instance
        whole = [pair for c in self.inside for pair in self.kernels_of(c)]
        self._row(whole, 1.0, np.inf if instance.asked[2] else 1.0)
        index = {kernel.name: v for v, kernel in enumerate(instance.workload.kernels)}
        where, leaders = self.classes.of(), list[tuple[int, float]]()
        for group in instance.task.together:
            here = [where[index[name]] for name in group if where[index[name]] in self.inside]
            if here:
                leaders += self.kernels_of(here[0])
            for c in here[1:]:
                self._row([*self.kernels_of(c), *self.kernels_of(here[0], None, -1.0)], 0.0, 0.0)
        if leaders:
            self._row(leaders, 0.0, 1.0)

    def _order(self) -> None:
        """C1 of a partition by itself: no path leaves it and comes back."""
        for number, chain in enumerate(chains(self.classes, self.inside)):
            starts = [self._add(("start", number, i), 1.0, False) for i in range(len(chain))]
            for i, (c, follows) in enumerate(chain):
                before = self.kernels_of(chain[i - 1][0]) if follows else []
                self._row([(starts[i], -1.0), *self.kernels_of(c), *((j, -a) for j, a in before)], -np.inf, 0.0)
            self._row([(start, 1.0) for start in starts], -np.inf, 1.0)
        for one in between(self.classes, self.inside):
            terms = [*self.kernels_of(one.between), *self.kernels_of(one.far, None, -one.share)]
            switch = one.share * one.cap
            self._row([*terms, *self.kernels_of(one.near, None, -switch)], -switch, np.inf)

    def costs(self, covers: Floats, matches: Mapping[tuple[int, int], float]) -> Floats:
        """Cost of each column: ``time - Σ covers[c] · kernels of class c - Σ matches[link, made] · crosses``."""
        cost = np.zeros(len(self.upper))
        cost[self.names["time",]] = 1.0
        for c in self.inside:
            for j, _ in self.kernels_of(c):
                cost[j] -= covers[c]
        for (e, g), price in matches.items():
            for j, factor in self.crossing(e, g):
                cost[j] -= price * factor
        return cost

    def crossing(self, e: int, g: int) -> list[tuple[int, float]]:
        """Tensors of link e with makers sharded as in g that come in, less those that leave."""
        if not self._near(self.classes.links[e]):
            return []
        return [*self._parts("in", e, g), *((j, -a) for j, a in self.leaving(e, g))]

    def partition(self, x: Floats) -> Partition:
        """The partition that columns of these values stand for."""
        kernels = {}
        for c in self.inside:
            for o, (j, _) in enumerate(self.kernels_of(c)):
                if (count := round(float(x[j]))) > 0:
                    kernels[c, o] = count
        crosses = {}
        for e, link in self.links:
            for g in range(len(link.made)) if len(link.made) > 1 else ():
                value = float(sum(a * x[j] for j, a in self.crossing(e, g)))
                if abs(value) > NEAR:
                    crosses[e, g] = value
        return Partition(float(x[self.names["time",]]), kernels, crosses)


def partitions_of(
    classes: Classes, unit: float, partitions: Sequence[int], chosen: Sequence[int]
) -> list[tuple[bool, Partition]]:
    """The phase of each partition of a mapping and what it is here: ``chosen`` are the options of the kernels.

    Its time is what the pricing program makes of it, which may be less than the mapping's.
    """
    problem, of = classes.problem, classes.of()
    option = [problem.options[v][o] for v, o in enumerate(chosen)]
    count = max(partitions) + 1
    compute, memory, network = [0] * count, [0] * count, [0] * count
    kernels: list[Counter[tuple[int, int]]] = [Counter() for _ in range(count)]
    crosses: list[Counter[tuple[int, int]]] = [Counter() for _ in range(count)]
    for v, p in enumerate(partitions):
        compute[p] += option[v].compute
        memory[p] += option[v].stream
        network[p] += option[v].collective
        kernels[p][of[v], chosen[v]] += 1
    changes, edges = Changes(classes), [(int(u), int(v)) for u, v in problem.edges.tolist()]
    moved = Counter[tuple[int, int]]()
    for u, v in edges:
        if partitions[u] == partitions[v]:
            continue
        e, g = changes.link(u, v)[0], changes.made[changes.link(u, v)[0]][chosen[u]]
        for p, sign in ((partitions[u], -1), (partitions[v], 1)):
            moved[u, p] += 1
            if len(classes.links[e].made) > 1:
                crosses[p][e, g] += sign
    for (u, p), times in moved.items():
        memory[p] += option[u].dram * (1 if problem.instance.mode == "physical" else times)
    phase, instance = {p: classes.backward[of[v]] for v, p in enumerate(partitions)}, problem.instance
    whole = max if instance.task.overlap else lambda *parts: sum(parts)
    found = []
    for p in range(count):
        least = network[p] + changes.least([(u, v) for u, v in edges if partitions[v] == p], chosen)
        once = (problem.launch + whole(compute[p], memory[p], least)) / unit
        runs = 1 if phase[p] else forward_runs(instance)
        found.append((phase[p], Partition(runs * once, dict(kernels[p]), dict(crosses[p]))))
    return found
