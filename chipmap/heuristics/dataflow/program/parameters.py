"""The graph of the program over ideals once for each way in which parameters can rest.

What backward kernels use of parameters depends on the schemes of forward kernels, which a signature has to say through
a whole phase otherwise. Where these ways are few, each is a graph of its own: what a user takes is part of its option,
and a signature says nothing of parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import log, prod

import numpy as np

from chipmap.heuristics.dataflow.program.exchanges import Exchanging
from chipmap.heuristics.dataflow.program.label_setting import AFTER, HELD, Graph
from chipmap.heuristics.dataflow.program.network_bound import network_rest
from chipmap.instances.dataflow.problem import IntArray

#: Ways in which parameters can rest, at most.
WAYS = 64
#: Picoseconds of an option that is left out: more than any limit.
NEVER = 2**58
#: A limit grows by an eighth up to so many labels; then so that the next search has so many times as many.
FEW_LABELS, MORE = 2_000, 4
#: After a search with so many labels bounds get better.
MANY_LABELS = 4_000
#: All ways together may make so many times the labels of one graph.
TIMES = 4


def few_ways(exchanging: Exchanging) -> bool:
    """Whether parameters can rest in few ways."""
    return prod(max(owner.cases) + 1 for owner in exchanging.owners.values()) <= WAYS


def each_way(g: Graph, exchanging: Exchanging) -> Iterator[Graph]:
    """The graph for each way in which the parameters of all owners can rest."""
    owners = exchanging.owners
    for cases in product(*(range(max(owner.cases) + 1) for owner in owners.values())):
        yield _resting(g, exchanging, dict(zip(owners, cases, strict=True)))


def tightened(g: Graph, overlap: bool) -> Graph:
    """The graph with a better bound on what kernels outside each ideal take of the network; of all that they take where
    nothing overlaps."""
    rest, column = g.rest.copy(), 2 if overlap else 0
    each = g.network if overlap else g.network + g.compute + g.memory
    rest[:, column] = np.maximum(rest[:, column], network_rest(g, each))
    return g._replace(rest=rest)


def next_step(limit: int, step: int, top: int, labels: int, before: int) -> int:
    """By how much a limit grows after a search with so many ``labels``, and ``before`` for a limit less by ``step``.

    It goes to the ``top`` where that takes about as long as one more search on the way there.
    """
    if labels < FEW_LABELS:
        return limit // 8 + 1
    grown = max(log(labels / max(before, 1)), 0.01)
    if grown * (top - limit) <= 2 * log(MORE) * step:
        return top - limit
    return max(limit // 64, min(4 * step, int(step * log(MORE) / grown))) + 1


def _resting(g: Graph, exchanging: Exchanging, cases: dict[int, int]) -> Graph:
    """The graph in which the parameters of each owner rest as in its case: its other options are left out."""
    network, beside = g.network.copy(), g.outside.copy()
    for at in exchanging.copies:
        for use in exchanging.problem.uses:
            own = exchanging.owners[at[use.owner]].cases.index(cases[at[use.owner]])
            options = slice(int(g.first[at[use.user]]), int(g.first[at[use.user] + 1]))
            network[options] += use.network[own]
            beside[options, AFTER] += use.after[own] - int(use.after.min())
            beside[options, HELD] += use.held[own]
    for u, owner in exchanging.owners.items():
        others: IntArray = np.array([case != cases[u] for case in owner.cases])
        network[int(g.first[u]) : int(g.first[u + 1])][others] = NEVER
    x, code = g.exchanges, g.fields.code.copy()
    for i, u in enumerate(x.owner.tolist()):
        code[g.first[u] : g.first[u + 1]] &= ~(int(x.cases[i]) << int(x.at[i]))
    nobody = x._replace(
        enter=np.zeros_like(x.enter),
        after=x.after[:0],
        held=x.held[:0],
        owner=x.owner[:0],
        at=x.at[:0],
        cases=x.cases[:0],
        users=x.users[:1],
        user=x.user[:0],
    )
    known = g.fields._replace(code=code)
    return g._replace(fields=known, exchanges=nobody, network=network, outside=beside, rest=_rest(g, network))


def _rest(g: Graph, network: IntArray) -> IntArray:
    """What kernels outside each ideal take at least, where options take so much of the ``network``."""
    first = g.first[:-1]
    more = np.minimum.reduceat(network, first) - np.minimum.reduceat(g.network, first)
    inside = np.unpackbits(g.sets.view(np.uint8), axis=1, bitorder="little")[:, : len(first)]
    rest = g.rest.copy()
    rest[:, 2] += (1 - inside.astype(np.int64)) @ (g.runs * more)
    return rest
