"""Lower bounds from minimum cuts: what links and chips carry whatever the mapping, within a target's station windows.

A target T that a bound refutes is proved too low: the optimum is at least T + 1. All need C1. The station windows are
those of T (:mod:`chipmap.instances.ring.station_windows`): every mapping with objective <= T keeps to them.

**Links.** After chip c the operations on the chips 0 … c form an ideal I of the flow graph, with all operations whose
station window ends by c and none whose window begins later. The link c carries the storages made in I and read outside
it. The least such load over all those ideals is a minimum cut (Picard's closure construction); above T it refutes T in
the cost modes ``period`` and ``sum_forward``, where no link may carry more than T.

**The bottleneck block** (after Archer et al., *Practical Performance Guarantees for Pipelined DNN Inference*, ICML
2024). Some chip runs a block B with work(B) >= W = ⌈total / C⌉. Let h(B) be the ticks of the storages with ends both in
B and outside it. In mode ``sum`` B costs work(B) + h(B); in ``sum_forward`` at least that, since what crosses B's
boundary crosses one of its two links; for the same reason h(B) <= 2 T in ``period``. For a chip c, B holds what must
be on c and nothing that can't be there. With any slope s >= 0,

    h(B) >= s · W + min over B of (h(B) - s · work(B)),

and the minimum is a minimum cut again. T is refuted if it is for every chip.

Flows are computed in 32 bits: costs are scaled down and rounded down, gains rounded up, so that bounds stay bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.ring.problem import RingProblem
from chipmap.instances.ring.station_windows import StationWindows, station_windows

#: An arc that no minimum cut takes, and what all other capacities sum up to at most.
INFINITE = 1 << 30
MOST = 1 << 29
#: Slopes s that are tried, in eighths of (all link ticks) / W.
EIGHTHS = (0, 1, 2, 4, 8, 16)
#: Relative precision of the bisection.
PRECISION = 1e-4


def link_bound(problem: RingProblem, low: int, high: int, deadline: Deadline = Deadline()) -> int:
    """The least target in [low, high], in ticks, that no link's minimum cut refutes (by bisection)."""
    if not problem.has("C1") or problem.cost_mode == "sum":
        return low
    return least(lambda target: _refuted(problem, links_refute, target), low, high, deadline)


def bottleneck_bound(problem: RingProblem, low: int, high: int, deadline: Deadline = Deadline()) -> int:
    """The least target in [low, high], in ticks, that some chip's bottleneck block leaves open (by bisection)."""
    if not problem.has("C1"):
        return low
    return least(lambda target: _refuted(problem, blocks_refute, target), low, high, deadline)


def least(refuted: Callable[[int], bool], low: int, high: int, deadline: Deadline) -> int:
    """A target above all that were seen to be ``refuted``: ``low``, or one more than such a target (by bisection)."""
    while low < high and high - low > PRECISION * high:
        deadline.check()
        middle = (low + high) // 2
        if refuted(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _refuted(problem: RingProblem, refute: Callable[[RingProblem, StationWindows], bool], target: int) -> bool:
    """Whether ``target`` leaves no station windows, or ``refute`` says no to them."""
    within = station_windows(problem, target)
    return within is None or refute(problem, within)


def links_refute(problem: RingProblem, within: StationWindows) -> bool:
    """Whether the minimum cut of some link exceeds the target of ``within``."""
    computing = np.flatnonzero(problem.computing).tolist()
    for chip in range(problem.chips - 1):
        inside = {v for v in computing if within.hi[v] <= chip}
        outside = {v for v in computing if within.lo[v] > chip}
        if inside and outside and least_cut(problem, inside, outside) > within.target:
            return True
    return False


def blocks_refute(problem: RingProblem, within: StationWindows) -> bool:
    """Whether no chip can hold a block of at least the average work at the target's cost."""
    average = -(-problem.total_ticks // problem.chips)
    period = problem.cost_mode == "period"
    room = 2 * within.target if period else within.target - average
    if room < 0:
        return True
    computing = np.flatnonzero(problem.computing).tolist()
    for chip in range(problem.chips):
        must = {v for v in computing if within.lo[v] == within.hi[v] == chip}
        may = {v for v in computing if within.lo[v] <= chip <= within.hi[v]}
        if sum(int(problem.ticks[v]) for v in may) < average:
            continue
        if not any(block_crossing(problem, must, may, average, eighths) > room for eighths in EIGHTHS):
            return False
    return True


def least_cut(problem: RingProblem, inside: Collection[int], outside: Collection[int]) -> int:
    """A lower bound on the ticks that cross any ideal with all of ``inside`` and none of ``outside``.

    (The least such load, up to what 32 bits round off.)
    """
    scale = sum(storage.ticks for storage in problem.storages) // MOST + 1
    network = _Network(inside, outside)
    for u, v in problem.flows.tolist():
        network.arc(v, u, INFINITE)
    for t, storage in enumerate(problem.storages):
        if ticks := storage.ticks // scale:
            network.arc(storage.producer, ("out", t), ticks)
            for v in storage.readers:
                network.arc(("out", t), v, INFINITE)
    return scale * network.flow()


def block_crossing(problem: RingProblem, must: Collection[int], may: Collection[int], work: int, eighths: int) -> int:
    """A lower bound on h(B) over the sets B of operations with ``must`` ⊆ B ⊆ ``may`` and work(B) >= ``work``.

    The slope s is ``eighths`` · (all link ticks) / (8 · ``work``).
    """
    link = sum(storage.ticks for storage in problem.storages)
    gain, cost = eighths * link, 8 * max(work, 1)  # s = gain / cost; all below is in units of 1 / cost
    amounts = {v: gain * int(problem.ticks[v]) for v in may}
    scale = (cost * link + sum(amounts.values())) // MOST + 1
    network = _Network(must, set(np.flatnonzero(problem.computing).tolist()) - set(may))
    for t, storage in enumerate(problem.storages):
        if ticks := cost * storage.ticks // scale:
            network.arc(("in", t), ("out", t), ticks)
            for v in (storage.producer, *storage.readers):
                network.arc(v, ("in", t), INFINITE)
                network.arc(("out", t), v, INFINITE)
    gains = 0
    for v, amount in amounts.items():
        rounded = -(-amount // scale)
        gains += rounded
        network.arc("source", v, rounded)
    return -(-(gain * work + scale * (network.flow() - gains)) // cost)


class _Network:
    """A flow network in the making; ``source`` and ``sink`` name the nodes that are one with either end."""

    def __init__(self, source: Collection[int], sink: Collection[int]) -> None:
        self.number: dict[object, int] = {"source": 0, "sink": 1}
        self.number.update(dict.fromkeys(source, 0))
        self.number.update(dict.fromkeys(sink, 1))
        self.nodes = 2
        self.capacity: dict[tuple[int, int], int] = {}

    def arc(self, tail: object, head: object, capacity: int) -> None:
        """Add capacity from tail to head."""
        pair = self._node(tail), self._node(head)
        if pair[0] != pair[1] and pair[0] != 1 and pair[1] != 0:
            self.capacity[pair] = min(INFINITE, self.capacity.get(pair, 0) + capacity)

    def _node(self, name: object) -> int:
        if name not in self.number:
            self.number[name] = self.nodes
            self.nodes += 1
        return self.number[name]

    def flow(self) -> int:
        """The maximum flow from source to sink, which is the minimum cut."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        if not self.capacity:
            return 0
        tails, heads = np.array(list(self.capacity), dtype=np.int32).T
        amounts = np.array(list(self.capacity.values()), dtype=np.int32)
        matrix = csr_array((amounts, (tails, heads)), shape=(self.nodes, self.nodes), dtype=np.int32)
        return int(maximum_flow(matrix, 0, 1).flow_value)
