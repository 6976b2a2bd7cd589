"""The program of a planner of tensor placements, over the nodes, options and costs of a dataflow layer.

The planner is meta-pytorch/autoparallel, here in words of our own: one option per node, costs of nodes and of
pairs of nodes that share an edge, bytes within limits. :mod:`benchmarks.dataflow_placements` says what it is for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.batch_time import batch_factor
from chipmap.instances.dataflow.layer_handover import handovers
from chipmap.instances.dataflow.problem import DataflowProblem, wires

Table = NDArray[np.int64]
#: [u, v] -> a table over the options of u and of v.
Pairs = dict[tuple[int, int], Table]
#: More DRAM than any mapping takes.
PLENTY = 10**15


class Costs(NamedTuple):
    """The tables of the program: of node v and its option s; of nodes u, v that share an edge and their options s, t.

    ``node`` [v][s] and ``pair`` [u, v][s, t] are picoseconds of the whole batch. ``dram`` has bytes by node and option
    for each place in the order of running, ``beside`` for some of these places [u, v][s, t] more; ``sram`` has bytes by
    node and option for each kernel.
    """

    node: list[Table]
    pair: Pairs
    dram: Callable[[int], list[Table]]
    sram: list[dict[int, Table]]
    beside: dict[int, Pairs]


def costs(problem: DataflowProblem, place: Sequence[int]) -> Costs:
    """What nodes and pairs cost, by the tables of the family's own models; nodes are those of all mapped layers. For
    each of them ``place`` is its position in the order of running."""
    instance, layers = problem.instance, problem.instance.mapped_layers
    assert not (instance.task.overlap or problem.added or instance.task.overlap_gradients)
    often, times = runs(instance) * layers, batch_factor(problem)
    assert problem.degrees.pipeline == 1 and times.denominator == 1
    often = tuple(int(times) * one for one in often)
    options, tensors = problem.options * layers, sorted(set(wires(problem, layers)))
    read = {u for u, _ in tensors}
    node, pair, beside = list[Table](), Pairs(), dict[int, Pairs]()
    for v, choice in enumerate(options):
        own = [problem.launch + o.compute + o.collective + o.stream + (v in read) * o.dram for o in choice]
        node.append(often[v] * np.array(own) + np.array([o.after for o in choice]))
    for u, v in tensors:
        node[u] = node[u] + often[v] * np.array([o.dram for o in options[u]])
    for u, v in [*tensors, *handovers(problem)]:
        _add(node, pair, u, v, often[v] * problem.changes(u % problem.n, v % problem.n).ticks)
    for first in range(0, len(options), problem.n):
        for use in problem.uses:
            ends = first + use.owner, first + use.user
            _add(node, pair, *ends, often[use.user] * use.network + use.after)
            if use.held.any():
                beside.setdefault(place[ends[1]], {})[ends] = use.held
    return Costs(node, pair, *_memory(problem, place, tensors, read), beside)


def _add(node: list[Table], pair: Pairs, u: int, v: int, more: Table) -> None:
    """Add a table over the options of u and of v."""
    if u == v:
        node[u] = node[u] + np.diagonal(more)
    elif (v, u) in pair:
        pair[v, u] = pair[v, u] + more.T
    else:
        pair[u, v] = pair.get((u, v), 0) + more


def _memory(
    problem: DataflowProblem, place: Sequence[int], tensors: list[tuple[int, int]], read: set[int]
) -> tuple[Callable[[int], list[Table]], list[dict[int, Table]]]:
    """Bytes of DRAM at a place, and of SRAM of each kernel."""
    options = problem.options * problem.instance.mapped_layers
    last = {u: max(place[v] for w, v in tensors if w == u) for u in read}
    fields = "kept", "waits", "weights", "buffer"
    column = [{f: np.array([getattr(o, f) for o in own]) for f in fields} for own in options]

    def dram(p: int) -> list[Table]:
        waiting = [v in read and place[v] <= p <= last[v] for v in range(len(options))]
        return [one["kept"] + one["waits"] * wait for one, wait in zip(column, waiting, strict=True)]

    sram = [{v: one["weights"] + 2 * (v in read) * one["buffer"]} for v, one in enumerate(column)]
    for u, v in tensors:
        sram[v][u] = sram[v].get(u, 0) + 2 * column[u]["buffer"]
    return dram, sram


class Solved(NamedTuple):
    """What HiGHS says: numbers of options, picoseconds of the linear relaxation, CPU seconds of both, binaries of
    pairs."""

    chosen: list[int]
    relaxed: float
    seconds: float
    relaxed_seconds: float
    pairs: int


class Program:
    """x[v, s] = [node v has option s]; z[u, v, s, t] = x[u, s] · x[v, t] for each pair, by sums over rows and
    columns. Costs add up; rows of bytes are at most their limits."""

    def __init__(self, tables: Costs, sram: int) -> None:
        self.tables, self.sizes = tables, [len(own) for own in tables.node]
        self.start = np.cumsum([0, *self.sizes])
        self.rows, self.lower, self.upper = list[dict[int, float]](), list[float](), list[float]()
        self.columns, self.fine = int(self.start[-1]), 1e4
        self.cost = [float(x) for own in tables.node for x in own]
        for v, size in enumerate(self.sizes):
            self._row({int(self.start[v]) + s: 1.0 for s in range(size)}, 1.0, 1.0)
        self.products = dict[tuple[int, int], int]()
        held = {pair for more in tables.beside.values() for pair in more}
        for (u, v), table in tables.pair.items():
            if table.any() or (u, v) in held:
                self._pair(u, v, table)
        for each in tables.sram:
            self.at_most(each, sram)

    def _row(self, entries: dict[int, float], lower: float, upper: float) -> None:
        self.rows.append(entries)
        self.lower.append(lower)
        self.upper.append(upper)

    def _pair(self, u: int, v: int, table: Table) -> None:
        first, (rows, columns) = self.columns, table.shape
        self.products[u, v] = first
        self.columns += rows * columns
        self.cost += [float(x) for x in table.flat]
        for s in range(rows):
            here = {first + s * columns + t: 1.0 for t in range(columns)}
            self._row(here | {int(self.start[u]) + s: -1.0}, 0.0, 0.0)
        for t in range(columns):
            here = {first + s * columns + t: 1.0 for s in range(rows)}
            self._row(here | {int(self.start[v]) + t: -1.0}, 0.0, 0.0)

    def within(self, capacity: int) -> None:
        """DRAM at every place."""
        for p in range(len(self.sizes)):
            self.at_most(dict(enumerate(self.tables.dram(p))), capacity, self.tables.beside.get(p, {}))

    def at_most(self, each: dict[int, Table], limit: float, beside: Pairs | None = None) -> None:
        """A row of bytes, in shares of its limit; none where no choice exceeds it."""
        beside = beside or {}
        if sum(int(own.max()) for own in (*each.values(), *beside.values())) > limit:
            entries = {int(self.start[v]) + s: float(x) / limit for v, own in each.items() for s, x in enumerate(own)}
            for pair, table in beside.items():
                entries |= {self.products[pair] + i: float(x) / limit for i, x in enumerate(table.flat)}
            self._row(entries, 0.0, 1.0)

    def solve(self, limit: float) -> Solved:
        """The optimum and the relaxation's; raises ``RuntimeError`` where HiGHS proves none in ``limit`` seconds."""
        found, took = [], []
        scale = max(self.cost) / self.fine  # HiGHS stops at an absolute gap of 1e-6, too
        entries = [(i, j, x) for i, row in enumerate(self.rows) for j, x in row.items()]
        at, to, values = zip(*entries, strict=True)
        matrix = coo_array((values, (at, to)), shape=(len(self.rows), self.columns)).tocsr()
        whole = np.zeros(self.columns)
        whole[: self.start[-1]] = 1
        for integral in (np.zeros(self.columns), whole):
            began = time.process_time()
            one = milp(
                np.array(self.cost) / scale,
                integrality=integral,
                bounds=Bounds(0, 1),
                constraints=LinearConstraint(matrix, self.lower, self.upper),
                options={"time_limit": limit, "mip_rel_gap": 0.0},
            )
            took.append(time.process_time() - began)
            if one.status != 0:
                raise RuntimeError(one.message)
            found.append(one)
        x = found[1].x
        chosen = [int(np.argmax(x[self.start[v] : self.start[v + 1]])) for v in range(len(self.sizes))]
        return Solved(chosen, found[0].fun * scale, took[1], took[0], self.columns - int(self.start[-1]))

    def least_peak(self, limit: float) -> int:
        """Bytes of DRAM that some choice manages with: the fewest, but for HiGHS's tolerance."""
        other = Program(self.tables._replace(pair={k: v * 0 for k, v in self.tables.pair.items()}), PLENTY)
        other.cost = [0.0] * other.columns + [1.0]
        other.columns, other.fine = other.columns + 1, 1.0
        before, places = len(other.rows), range(len(self.sizes))
        for p in places:
            other.at_most(dict(enumerate(self.tables.dram(p))), 1.0, self.tables.beside.get(p, {}))
        most = max(sum(row.values()) for row in other.rows[before:])
        for at in range(before, len(other.rows)):
            other.rows[at] = {j: x / most for j, x in other.rows[at].items()} | {other.columns - 1: -1.0}
            other.lower[at], other.upper[at] = -np.inf, 0.0
        return self.peak(other.solve(limit).chosen)

    def value(self, chosen: list[int]) -> int:
        """Picoseconds of a choice, exactly."""
        tables = self.tables
        own = sum(int(one[s]) for one, s in zip(tables.node, chosen, strict=True))
        return own + sum(int(table[chosen[u], chosen[v]]) for (u, v), table in tables.pair.items())

    def peak(self, chosen: list[int]) -> int:
        """Bytes of DRAM that a choice takes at most."""
        return max(
            sum(int(own[s]) for own, s in zip(self.tables.dram(p), chosen, strict=True))
            + sum(int(table[chosen[u], chosen[v]]) for (u, v), table in self.tables.beside.get(p, {}).items())
            for p in range(len(chosen))
        )
