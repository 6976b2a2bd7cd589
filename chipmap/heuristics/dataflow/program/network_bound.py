"""What kernels outside an ideal take of the network at least, as their schemes and their makers' have to go together.

Each kernel by itself takes its least collective, and no change of layout. Together they can't all have that. The least
sum over all kernels' options of collectives and changes is a problem of labels on a graph; its linear relaxation (the
local polytope; Werner, *IEEE Transactions on Pattern Analysis and Machine Intelligence* 29, 2007) takes milliseconds.
Its duals say what each option of a maker is worth to a reader. With any such numbers, whole ones here,

    Σ over kernels outside of the least of (own picoseconds + what its options are worth to readers, and to its makers)
    + Σ over tensors from inside of the least that the maker's options are worth to the reader

bounds the sum from below, whatever the rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.dataflow.program.label_setting import Graph
from chipmap.instances.dataflow.problem import IntArray

#: Picoseconds that stand for an option which is left out, and picoseconds of a unit of the linear program.
MOST, UNIT = 2**45, 1e6


def network_rest(g: Graph, each: IntArray) -> IntArray:
    """Picoseconds [ideals] that kernels outside an ideal take at least, where options take ``each`` by themselves, with
    changes of layout and sums of added products on top."""
    n = len(g.first) - 1
    own = _own(g, each)
    changes = {e: change for e in range(len(g.source)) if (change := _change(g, e)).any()}
    worth = _worth(g, own, changes)
    inside = np.unpackbits(g.sets.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(np.int64)
    rest = np.zeros(len(inside), np.int64)
    for e, change in changes.items():
        u, v, made = int(g.source[e]), int(g.target[e]), worth[e]
        own[u] = own[u] + made
        own[v] = own[v] + (change - made[:, None]).min(axis=0)
        rest += int(made.min()) * inside[:, u] * (1 - inside[:, v])
    least: IntArray = rest + (1 - inside) @ np.array([int(one.min()) for one in own], dtype=np.int64)
    return least


def _own(g: Graph, each: IntArray) -> list[IntArray]:
    """Picoseconds of each kernel's options by themselves. The last of added products pays for all kinds of sums that
    occur: at least an equal share of each product's."""
    x, own = g.exchanges, [each[a:b] for a, b in zip(g.first, g.first[1:], strict=False)]
    for group in range(len(x.group) - 1):
        members = x.members[x.group[group] : x.group[group + 1]]
        for u in members.tolist():
            kinds = x.kind[g.first[u] : g.first[u + 1]]
            own[u] = own[u] + x.sums[group, kinds] // len(members)
    return [np.minimum(MOST, int(g.runs[v]) * np.minimum(MOST, one)) for v, one in enumerate(own)]


def _change(g: Graph, e: int) -> IntArray:
    """Picoseconds of an edge's change of layout [maker's options, reader's] that nothing spares.

    A need that another reader may have paid for, and any product but the first of those that are added up, is free.
    """
    x, u, v = g.exchanges, int(g.source[e]), int(g.target[e])
    made, taken = (int(g.first[w + 1] - g.first[w]) for w in (u, v))
    adder = int(x.adder[v])
    if adder >= 0 and x.member[u] == adder and x.members[x.group[adder]] != u:
        return np.zeros((made, taken), np.int64)
    alone: NDArray[np.bool_] = x.covering[e, :taken] == 0
    return g.converts[e, :made, :taken] * int(g.runs[v]) * alone


def _worth(g: Graph, own: list[IntArray], changes: dict[int, IntArray]) -> dict[int, IntArray]:
    """What the maker's options are worth to the reader of each edge: duals of the relaxation, whole numbers."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    first = np.cumsum([0, *map(len, own)])
    cost, sums, factors = [*own], [np.ones(len(own))], [np.ones(first[-1])]
    rows, columns = [np.repeat(np.arange(len(own)), np.diff(first))], [np.arange(first[-1])]
    width, height, begin = int(first[-1]), len(own), dict[int, int]()
    for e, change in changes.items():
        made, taken = change.shape
        pairs = width + np.arange(change.size).reshape(change.shape)
        begin[e] = height
        rows += [height + np.repeat(np.arange(made), taken), height + made + np.tile(np.arange(taken), made)]
        rows.append(height + np.arange(made + taken))
        columns += [pairs.reshape(-1), pairs.reshape(-1), first[int(g.source[e])] + np.arange(made)]
        columns.append(first[int(g.target[e])] + np.arange(taken))
        factors += [np.ones(2 * change.size), -np.ones(made + taken)]
        sums.append(np.zeros(made + taken))
        cost.append(change.reshape(-1))
        width, height = width + change.size, height + made + taken
    entries = np.concatenate(factors), (np.concatenate(rows), np.concatenate(columns))
    matrix = csr_array(entries, shape=(height, width))
    found = linprog(np.concatenate(cost) / UNIT, A_eq=matrix, b_eq=np.concatenate(sums), method="highs")
    if found.status != 0:  # nothing is worth anything: a bound all the same
        return {e: np.zeros(len(change), np.int64) for e, change in changes.items()}
    duals = np.floor(found.eqlin.marginals * UNIT).astype(np.int64)
    return {e: duals[begin[e] : begin[e] + len(change)] for e, change in changes.items()}
