"""Tables: the least energy of every range of a model's layers, by kind of path and by the time that a window allows.

Chiplets on which everything costs the same are of one **type**. A path of linked chiplets has a **signature**, the
types along it; on a module of a few types many paths share one. A model's segments in a window cost what the signature
says, wherever the path lies. So one program over the trie of all signatures prices every way to run every range of
layers, and the chiplets come back as masks (:attr:`Paths.masks`).

With S = Σ t over the segments, M = max t and E the energy, a range takes Lat = S + weights + (q − 1) · M. Bottlenecks M
are dealt to cells (low, high]. For each cell, segments of at most ``high`` are allowed and these are minimised one by
one, over all cuts: S; E; E + rate · S for a few rates. Each is a sum over segments, so that a segment more costs one
sliding minimum: F(node, j) = min over a of F(parent, a − 1) + cost of layers a … j on the node's type. What follows for
a window of at most T ns: E >= max(least E, least (E + rate · S) − rate · (T − weights − (q − 1) · M)), where M is at
least the first time of a segment of that range above ``low``. This is a lower bound on each real segmentation; it is
met where each cell holds one bottleneck and the rates reach each best pair (S, E).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.tables.counts import Counts
from chipmap.heuristics.multimodel.tables.kernel import (
    NONE,
    WIDE,
    Costs,
    FloatArray,
    WindowCosts,
    first_hopeless,
    first_segments,
    lanes_of,
    least_slowest,
    lowest_starts,
    more_segments,
    received_segments,
    smallest_times,
    steps,
)
from chipmap.heuristics.multimodel.tables.paths import Paths
from chipmap.instances.multimodel.problem import UNLIMITED, IntArray, ModelCosts, MultiProblem
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table

#: Cells of bottlenecks, and numbers in all of them, that are worked on at once for a single range.
CELLS, NUMBERS = 128, 2**25


class Table(NamedTuple):
    """Entries of one model: layers ``first`` to ``last`` on a path of ``signature`` in a window of ``cell`` or a longer
    one take at least ``energy`` pJ.

    A window of cell t lasts more than ``edges[t]`` and at most ``edges[t + 1]`` ns. For every real segmentation with
    Lat <= ``edges[t + 1]`` on a set of chiplets there is an entry with the same layers, a cell of at most t, no more
    energy, and a signature with a mask within that set. Entries are sorted by layers.
    """

    signature: NDArray[np.int16]
    first: NDArray[np.int16]
    last: NDArray[np.int16]
    cell: NDArray[np.int16]
    energy: FloatArray


def criteria(problem: MultiProblem, model: ModelCosts, paths: Paths | Counts, rates: Sequence[float] | None) -> Costs:
    """The costs of ``model``; ``rates`` in pJ per ns. None: energy counts nothing."""
    layers, own = model.layers, paths.costs(model)
    weights = [(1.0, 0.0)] if rates is None else [(1.0, 0.0), (0.0, 1.0), *((rate, 1.0) for rate in rates)]

    def mixed(time: IntArray, energy: IntArray) -> FloatArray:
        return np.array([a * time.T + b * energy.T for a, b in weights], dtype=np.float64)

    run = mixed(own.time, own.run_energy)
    received = problem.receive_time(model)
    fits = np.zeros((own.time.shape[1], layers), dtype=np.int64)
    for k, limit in enumerate(paths.sram(problem).tolist()):
        if limit < UNLIMITED:
            for j in range(layers):
                need = np.cumsum(model.weights[j::-1]) + np.maximum.accumulate(model.need[j::-1])
                fits[k, j] = j + 1 - int(np.count_nonzero(need <= limit))
    return Costs(
        run=np.concatenate([np.zeros((*run.shape[:2], 1)), np.cumsum(run, axis=2)], axis=2),
        read=mixed(own.read_time, own.read_energy),
        write=mixed(own.write_time, own.write_energy),
        send=mixed(model.send_time, model.send_energy),
        receive=mixed(received, np.zeros_like(received)),
        fits=fits,
    )


def bottlenecks(edges: IntArray, q: int) -> FloatArray:
    """The ends of the cells of bottlenecks that windows of these ``edges`` allow: Lat >= q · M."""
    if q == 1:
        return np.array([0.0, float(edges[-1])])
    inner = np.unique(edges[edges > 0] // q)
    return np.array([0.0, *inner[inner > 0].tolist()]) if len(inner[inner > 0]) else np.array([0.0, 0.0])


def build(
    problem: MultiProblem,
    m: int,
    paths: Paths | Counts,
    edges: IntArray,
    rates: Sequence[float] | None,
    deadline: Deadline,
    coarse: IntArray | None = None,
    cautious: bool = False,
) -> Table:
    """The table of model m; raises :class:`chipmap.deadline.Stop` at the deadline.

    Cells of bottlenecks are those that windows of ``coarse`` edges allow (None: ``edges``). Without ``rates`` (None)
    energies are 0, and a range has one entry per group: the first cell that it fits. ``cautious``: estimates, with the
    most M that a cell allows, or the signature's least M in its cell.
    """
    model, alone = problem.models[m], rates is None
    ends = bottlenecks(edges if coarse is None else coarse, model.q)
    program = _Program(problem, model, paths, edges[[0, -1]] if alone else edges, ends, rates, cautious)
    parts = []
    for start in range((model.layers - 1) // WIDE * WIDE, -1, -WIDE):
        program.meet(start)
        *columns, found = program.ranges(start, deadline)
        parts.append((*(column.astype(np.int16) for column in columns), found))
    signature, first, last, cell = (np.concatenate([part[x] for part in reversed(parts)]) for x in range(4))
    energy = np.concatenate([part[4] for part in reversed(parts)])
    if alone:
        cell = np.maximum(np.searchsorted(edges, energy) - 1, 0).astype(np.int16)
        energy[:] = 0.0
    return Table(signature, first, last, cell, energy - program.loose)


class WholeTable(NamedTuple):
    """Entries of all layers of a model, each signature's own: every real segmentation along it has no less energy.

    A :class:`Table` leaves out what a smaller set of chiplets is said to do as well. That serves bounds alone: what is
    said may be less than any real segmentation there needs.
    """

    signature: IntArray
    cell: IntArray
    energy: FloatArray


def build_whole(
    problem: MultiProblem,
    m: int,
    paths: Paths | Counts,
    grid: tuple[IntArray, FloatArray],
    rates: Sequence[float],
    deadline: Deadline,
) -> WholeTable:
    """The entries of all layers of model m; ``grid``: edges of the windows' cells, ends of the bottlenecks' cells from
    0 on (not used for q = 1)."""
    model, (edges, ends) = problem.models[m], grid
    if model.q == 1:
        ends = np.array([0.0, float(edges[-1])])
    found, each = [], min(paths.longest, model.layers) * model.layers * (2 + len(rates)) * WIDE
    cells = max(1, min(CELLS, NUMBERS // each))
    for h in range(0, len(ends) - 1, cells):
        program = _Program(problem, model, paths, edges, ends[h : h + cells + 1], rates)
        for start in range((model.layers - 1) // WIDE * WIDE, -1, -WIDE):
            program.meet(start)
        signature, _, _, cell, energy = program.ranges(0, deadline, whole=True)
        found.append((signature, cell, energy - program.loose))
    signature, cell, energy = (np.concatenate(column) for column in zip(*found, strict=True))
    return WholeTable(signature, cell, energy)


class _Program:
    """The program over the trie for one model, cells of windows (``edges``) and cells of bottlenecks (``ends``)."""

    def __init__(
        self,
        problem: MultiProblem,
        model: ModelCosts,
        paths: Paths | Counts,
        edges: IntArray,
        ends: FloatArray,
        given: Sequence[float] | None,
        cautious: bool = False,
    ) -> None:
        rates = [max(1, round(rate)) for rate in given or ()]
        self.paths, self.ends, self.both = paths, ends.copy(), problem.both_ends
        self.ends[0] = -1.0 if ends[0] == 0 else ends[0]  # segments may take no time at all
        self.costs = costs = criteria(problem, model, paths, None if given is None else rates)
        self.lows = lowest_starts(costs, ends[1:])
        self.layers, self.windows, cells = model.layers, len(edges) - 1, len(ends) - 1
        weight = np.concatenate([[0.0], np.cumsum(model.weight_time, dtype=np.float64)])
        given_rates = np.array(rates, dtype=np.float64)
        self.window = WindowCosts(edges.astype(np.float64), weight, given_rates, float(model.q - 1), cautious)
        self.lanes = lanes_of(costs)
        shape = (cells, self.layers, len(costs.run) * WIDE)
        #: Costs of a signature's ranges that end with it.
        self.end = np.empty(shape)
        self.nested, self.last = np.full((cells, self.layers), NONE), np.full((cells, self.layers), NONE)
        self.low = np.empty((cells, self.layers, WIDE))
        self.stops = np.zeros(cells, dtype=np.int64)
        #: The least M of ranges that end with a signature, and energies of nothing.
        self.write = np.full((self.layers, WIDE), NONE)
        self.none = np.full((self.layers, WIDE, self.windows), NONE)
        # whole numbers up to 2^53 are exact, and so are their sums
        total = problem.most_energy + max(rates, default=0) * problem.most_time
        #: What rounding may have added to energies, pJ.
        self.loose = 0 if total < 2**53 else total * 2**-40

    def meet(self, start: int) -> None:
        """Find the least times of segments of ranges from these starts on; the last starts are met first."""
        smallest_times(self.costs, self.ends, start, self.nested, self.last, self.low)

    def ranges(self, start: int, deadline: Deadline, whole: bool = False) -> Entries:
        """The entries of the starts that were met last; ``whole``: each signature's own of the range of all layers."""
        none = np.zeros(self.layers * WIDE + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
        found: list[Steps] = [none] * self.paths.signatures
        self.stops = first_hopeless(self.costs, self.ends[1:], start)
        for s, steps_of in self._all(start, deadline, whole):
            found[s] = steps_of
        if not whole:
            return _joined(self.paths, found, start, self.layers, self.windows)
        signature = np.repeat(np.arange(len(found)), [len(cell) for _, cell, _ in found])
        first = np.zeros_like(signature)
        cells, energies = (np.concatenate([one[x] for one in found]) for x in (1, 2))
        return signature, first, first + self.layers - 1, cells, energies

    def _all(self, start: int, deadline: Deadline, whole: bool) -> Iterator[tuple[int, Steps]]:
        """The steps of all signatures that the model has layers for, each after those of its parents."""
        if isinstance(self.paths, Counts):
            parents = _Parents(self, start)
            for d in range(min(self.paths.longest, self.layers - start)):
                after = dict[int, Open]()
                for s in np.flatnonzero(self.paths.depth == d).tolist():
                    deadline.check()
                    before, after[s] = parents.least(self.paths.parents[s], d), parents.room()
                    yield s, self._steps(s, before, after[s], (start, d, whole))
                parents.go_on(after)
            return
        children: dict[int, list[int]] = {}
        for s, parent in enumerate(self.paths.parent.tolist()):
            children.setdefault(parent, []).append(s)
        ways = list[Open]()
        stack = [(s, 0) for s in children[-1]]
        while stack:
            deadline.check()
            s, depth = stack.pop()
            if depth == len(ways):
                ways.append(self.open())
            yield s, self._steps(s, ways[depth - 1] if depth else None, ways[depth], (start, depth, whole))
            if start + depth + 1 < self.layers:
                stack += [(child, depth + 1) for child in children.get(s, [])]

    def open(self) -> Open:
        """Room for what follows of a signature."""
        reach = np.empty((self.layers, WIDE, self.windows))
        return Open(np.empty_like(self.end), np.full((self.layers, WIDE), NONE), reach)

    def _steps(self, s: int, before: Open | None, after: Open, chosen: tuple[int, int, bool]) -> Steps:
        """The steps of one signature, after those of its parents; ``after`` is written. ``chosen``: as of
        :func:`~chipmap.heuristics.multimodel.tables.energy_steps.steps`."""
        k, (start, depth, whole) = int(self.paths.kind[s]), chosen
        if self.window.more > 0:
            send = after.slow if before is None else before.slow
            least_slowest(self.costs, k, (start, depth), send, after.slow, self.write)
        if before is None:
            first_segments(self.costs, k, start, self.ends, self.stops, after.inner, self.end)
        elif self.both:
            given = self.costs, self.lanes, k, start + depth, self.ends, self.stops
            received_segments(*given, self.lows, before.inner, after.inner, self.end)
        else:
            more_segments(self.lanes, k, start + depth, self.stops, self.lows, before.inner, after.inner, self.end)
        known = self.none if whole or before is None else before.reach
        reach, room = (known, after.reach), 4 * self.layers * WIDE
        offsets = np.zeros(self.layers * WIDE + 1, np.int64)
        while True:
            cell, energy = np.empty(room, np.int64), np.empty(room)
            ranges = self.stops, chosen, self.ends
            count = steps(self.end, self.low, self.write, *ranges, self.window, reach, offsets, cell, energy)
            if count >= 0:
                return offsets, cell[:count].copy(), energy[:count].copy()
            room *= 4


class Open(NamedTuple):
    """What may follow of a signature, if its last segment sends: costs ``inner`` [cells, L, lanes], least M ``slow``
    [L, WIDE], and the least energies so far, ``reach`` [L, WIDE, cells of windows]."""

    inner: FloatArray
    slow: FloatArray
    reach: FloatArray


class _Parents:
    """What nodes of several parents begin with; of nodes with the same ones it is made once. ``free``: room that is
    used again."""

    def __init__(self, program: _Program, start: int) -> None:
        self.program, self.start, self.free = program, start, list[Open]()
        self.before, self.made = dict[int, Open](), dict[tuple[int, ...], Open]()

    def room(self) -> Open:
        """Room for what follows of a node."""
        return self.free.pop() if self.free else self.program.open()

    def least(self, parents: tuple[int, ...], depth: int) -> Open | None:
        """The least of what the parents leave to nodes with ``depth`` segments before the last one; None of none."""
        if len(parents) < 2:
            return self.before[parents[0]] if parents else None
        if parents not in self.made:
            found, first = self.room(), self.before[parents[0]]
            for parent in parents[1:]:
                self._lesser(first, self.before[parent], slice(self.start + depth - 1, None), found)
                first = found
            self.made[parents] = found
        return self.made[parents]

    @staticmethod
    def _lesser(one: Open, other: Open, last: slice, found: Open) -> None:
        """Write to ``found`` the least of each entry of ranges with these last layers."""
        np.minimum(one.inner[:, last], other.inner[:, last], out=found.inner[:, last])
        np.minimum(one.slow[last], other.slow[last], out=found.slow[last])
        np.minimum(one.reach[last], other.reach[last], out=found.reach[last])

    def go_on(self, after: dict[int, Open]) -> None:
        """Nodes with one segment more follow; these are their parents."""
        self.free += [*self.before.values(), *self.made.values()]
        self.before, self.made = after, {}


#: Steps of a signature: where those of each (last, first layer) begin, their cells of windows, their energies.
Steps = tuple[IntArray, IntArray, FloatArray]
#: Signature, first, last, cell, energy.
Entries = tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]


class Given(NamedTuple):
    """Steps of all signatures one behind the other: ``sizes`` [signatures + 1], ``offsets`` [signatures, places + 1]
    from there, cells, energies."""

    sizes: IntArray
    offsets: IntArray
    cells: IntArray
    energies: FloatArray


@njit(cache=True, nogil=True)
def merged(
    group: IntArray,
    below: IntArray,
    given: Given,
    span: tuple[int, int],
    own: FloatArray,
    columns: IntArray,
    energy: FloatArray,
) -> int:
    """Write the entries (``columns``: signature, first, last, cell) without those that a smaller group beats; their
    number. ``own`` [groups, cells of windows] is for its work, filled with NONE before and after."""
    groups, windows = own.shape
    start, layers = span
    by = integer_table(groups, windows, -1)
    count = 0
    for v in range(WIDE):
        for j in range(start + v, layers):
            place = j * WIDE + v
            low, high = windows, -1
            for s in range(len(group)):
                base = given.sizes[s]
                for x in range(base + given.offsets[s, place], base + given.offsets[s, place + 1]):
                    t = given.cells[x]
                    low, high = min(low, t), max(high, t)
                    if given.energies[x] < own[group[s], t]:
                        own[group[s], t], by[group[s], t] = given.energies[x], s
            for g in range(groups):
                known = NONE
                for t in range(low, high + 1):
                    limit = known
                    for b in below[g]:
                        if b >= 0 and own[b, t] < limit:
                            limit = own[b, t]
                    if own[g, t] < limit:
                        columns[0, count], columns[1, count], columns[2, count] = by[g, t], start + v, j
                        columns[3, count], energy[count] = t, own[g, t]
                        count += 1
                        limit = own[g, t]
                    own[g, t] = known = limit
            own[:, low : high + 1] = NONE
    return count


def _joined(paths: Paths | Counts, found: Sequence[Steps], start: int, layers: int, windows: int) -> Entries:
    """Entries that no smaller group of signatures has, sorted by layers."""
    sizes = np.cumsum([0, *(len(cell) for _, cell, _ in found)])
    offsets = np.stack([offset for offset, _, _ in found])
    cells, energies = np.concatenate([cell for _, cell, _ in found]), np.concatenate([e for _, _, e in found])
    work = np.full((len(paths.below), windows), NONE)
    columns = np.empty((4, sizes[-1]), np.int64)
    energy = np.empty(sizes[-1])
    given = Given(sizes, offsets, cells, energies)
    count = merged(paths.group, paths.below, given, (start, layers), work, columns, energy)
    signature, first, last, cell = columns[:, :count].copy()
    return signature, first, last, cell, energy[:count].copy()
