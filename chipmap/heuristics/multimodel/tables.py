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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.paths import Paths
from chipmap.heuristics.multimodel.tables_kernel import (
    NONE,
    WIDE,
    Costs,
    FloatArray,
    Given,
    Window,
    first_segments,
    lowest_starts,
    merged,
    more_segments,
    smallest_times,
    steps,
)
from chipmap.instances.multimodel.problem import IntArray, ModelCosts, MultiProblem


@dataclass(frozen=True, eq=False)
class Table:
    """Entries of one model: layers ``first`` to ``last`` on a path of ``signature`` in a window of ``cell`` or a longer
    one take at least ``energy`` pJ.

    A window of cell t lasts more than ``edges[t]`` and at most ``edges[t + 1]`` ns. For every real segmentation with
    Lat <= ``edges[t + 1]`` on a set of chiplets there is an entry with the same layers, a cell of at most t, no more
    energy, and a signature with a mask within that set. Entries are sorted by layers.
    """

    model: int
    edges: IntArray
    signature: NDArray[np.int16]
    first: NDArray[np.int16]
    last: NDArray[np.int16]
    cell: NDArray[np.int16]
    energy: FloatArray

    @property
    def megabytes(self) -> float:
        """Size of the arrays."""
        arrays = (self.signature, self.first, self.last, self.cell, self.energy)
        return float(sum(array.nbytes for array in arrays)) / 1e6


def criteria(problem: MultiProblem, model: ModelCosts, paths: Paths, rates: Sequence[float]) -> Costs:
    """The costs of ``model``; ``rates`` in pJ per ns."""
    at, layers = paths.chiplet, model.layers
    sram = [problem.instance.module.chiplets[c].sram_bytes for c in at]
    weights = [(1.0, 0.0), (0.0, 1.0), *((rate, 1.0) for rate in rates)]

    def mixed(time: IntArray, energy: IntArray) -> FloatArray:
        return np.array([a * time.T + b * energy.T for a, b in weights], dtype=np.float64)

    run = mixed(model.time[:, at], (model.energy + model.weight_energy)[:, at])
    received = model.send_time if problem.both_ends else np.zeros_like(model.send_time)
    fits = np.zeros((len(at), layers), dtype=np.int64)
    for k, limit in enumerate(sram):
        if limit is not None:
            for j in range(layers):
                need = np.cumsum(model.weights[j::-1]) + np.maximum.accumulate(model.need[j::-1])
                fits[k, j] = j + 1 - int(np.count_nonzero(need <= limit))
    return Costs(
        run=np.concatenate([np.zeros((*run.shape[:2], 1)), np.cumsum(run, axis=2)], axis=2),
        read=mixed(model.read_time[:, at], model.read_energy[:, at]),
        write=mixed(model.write_time[:, at], model.write_energy[:, at]),
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
    problem: MultiProblem, m: int, paths: Paths, edges: IntArray, rates: Sequence[float], deadline: Deadline
) -> Table:
    """The table of model m; raises :class:`chipmap.deadline.Stop` at the deadline."""
    model = problem.models[m]
    rates = [max(1, round(rate)) for rate in rates]
    costs = criteria(problem, model, paths, rates)
    layers, size = model.layers, len(costs.run)
    ends = bottlenecks(edges, model.q)
    cells = len(ends) - 1
    lows = lowest_starts(costs, ends[1:])
    weight = np.concatenate([[0.0], np.cumsum(model.weight_time, dtype=np.float64)])
    depth = np.zeros(paths.signatures, dtype=np.int64)
    for s in range(paths.signatures):
        depth[s] = depth[paths.parent[s]] + 1 if paths.parent[s] >= 0 else 0
    most = min(int(depth.max()) + 1, layers)
    children: dict[int, list[int]] = {}
    for s in range(paths.signatures):
        if depth[s] < most:
            children.setdefault(int(paths.parent[s]), []).append(s)
    inner = np.empty((most, cells, size, layers, WIDE))
    end = np.empty((cells, size, layers, WIDE))
    nested, last = np.full((cells, layers), NONE), np.full((cells, layers), NONE)
    low = np.empty((cells, layers, WIDE))
    reach = np.empty((most + 1, layers, WIDE, len(edges) - 1))
    reach[0] = NONE
    known = Window(edges.astype(np.float64), weight, np.array(rates, dtype=np.float64), float(model.q - 1))
    parts = []
    for start in range((layers - 1) // WIDE * WIDE, -1, -WIDE):
        smallest_times(costs, ends, start, nested, last, low)
        found = [(np.zeros(layers * WIDE + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))] * paths.signatures
        stack = list(children[-1])
        while stack:
            deadline.check()
            s = stack.pop()
            d, k = int(depth[s]), int(paths.kind[s])
            if d == 0:
                first_segments(costs, k, start, ends, inner[0], end)
            else:
                more_segments(costs, k, problem.both_ends, start, ends, lows, inner[d - 1], inner[d], end)
            cell, energy = np.empty(0, np.int64), np.empty(0)
            count, room, offsets = -1, 4 * layers * WIDE, np.zeros(layers * WIDE + 1, np.int64)
            while count < 0:
                room *= 2
                cell, energy = np.empty(room, np.int64), np.empty(room)
                count = steps(end, low, start, ends, known, reach[d], reach[d + 1], offsets, cell, energy)
            found[s] = (offsets, cell[:count].copy(), energy[:count].copy())
            stack += children.get(s, [])
        parts.append(_joined(paths, found, start, layers, len(edges) - 1))
    short = [np.concatenate([part[x] for part in reversed(parts)]).astype(np.int16) for x in range(4)]
    energies = np.concatenate([part[4] for part in reversed(parts)])
    # whole numbers up to 2^53 are exact, and so are their sums
    total = problem.most_energy + max(rates, default=0) * problem.most_time
    signature, first, last, windows = short
    return Table(m, edges, signature, first, last, windows, energies - (0 if total < 2**53 else total * 2**-40))


#: Steps of a signature: where those of each (last, first layer) begin, their cells of windows, their energies.
Steps = tuple[IntArray, IntArray, FloatArray]
#: Signature, first, last, cell, energy.
Entries = tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]


def _joined(paths: Paths, found: Sequence[Steps], start: int, layers: int, windows: int) -> Entries:
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
