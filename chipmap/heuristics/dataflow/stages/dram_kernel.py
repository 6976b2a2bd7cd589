"""The compiled part of the program for stages within their DRAM: stages end by end, backwards from each end."""

from __future__ import annotations

from typing import NamedTuple

from chipmap.heuristics.dataflow.program.label_setting import Graph, Rules, has, option_of, waiting
from chipmap.heuristics.dataflow.stages.kernel import WIDE, Arcs, StageArcs
from chipmap.heuristics.engines.ideals import Words
from chipmap.instances.dataflow.problem import IntArray
from chipmap.kernels import njit


class Into(NamedTuple):
    """Partitions by the node that they end at, ``first`` [nodes + 1]: the node where each starts, its number among
    those by start, and the bytes that it leaves waiting in DRAM (``made``)."""

    first: IntArray
    source: IntArray
    number: IntArray
    made: IntArray


class Asked(NamedTuple):
    """Picoseconds that no stage may pass (``below``); whether its partitions are ``counted`` up to the table's most,
    and whether it has ``exactly`` so many."""

    below: int
    counted: bool
    exactly: bool


class Ends(NamedTuple):
    """All that is looked at for an end: partitions by start (``arcs``) and by end, with weights streamed and resident;
    the ``ideal``, ``signature`` and place in the ``order`` (``position``) of each node."""

    arcs: StageArcs
    streamed: Into
    resident: Into
    ideal: IntArray
    signature: IntArray
    order: IntArray
    position: IntArray


class Backward(NamedTuple):
    """Labels of what is left of a stage from a node on, by node, number of partitions and place: [nodes, most + 1,
    places].

    ``time`` is its picoseconds (-1: no label), ``waits`` the most bytes that wait in DRAM while one of its partitions
    runs, ``extra`` what its kernels keep beyond the least. The label that it goes on with has ``then`` = (node, number
    of partitions, place), after the partition ``arc``.
    """

    time: IntArray
    waits: IntArray
    extra: IntArray
    then: IntArray
    arc: IntArray


class Reached(NamedTuple):
    """By node and number of stages before it, [nodes, stages + 1]: the node where the last of these stages begins (-1:
    these stages don't reach it), and its one partition if its weights stay in SRAM (-1: they don't)."""

    begin: IntArray
    stays: IntArray


@njit(cache=True, nogil=True)
def left_waiting(g: Graph, rules: Rules, ideal: IntArray, signature: IntArray, arcs: Arcs, made: IntArray) -> None:
    """For each partition the bytes of the tensors that it makes for later ones (``made``)."""
    for x in range(len(ideal)):
        for a in range(arcs.first[x], arcs.first[x + 1]):
            y = arcs.target[a]
            made[a] = waiting(g, rules, signature[y], ideal[y], g.sets[ideal[x]])


@njit(part=True)
def carried(g: Graph, rules: Rules, signature: int, i: int, end: Words) -> int:
    """Bytes of the tensors that kernels of ideal i made and that kernels outside it, but in the ideal ``end``, read."""
    total = 0
    for k in range(g.open_first[i], g.open_first[i + 1]):
        u = g.open[k]
        size = g.waits_dram[option_of(g, signature, u)]
        if size == 0:
            continue
        readers = 0
        for e in range(g.leave[u], g.leave[u + 1]):
            w = g.target[g.leaving[e]]
            readers += has(end, w) and not has(g.sets[i], w)
        total += size * (min(readers, 1) if rules.multicast else readers)
    return total


@njit(part=True)
def put(
    table: Backward, at: tuple[int, int], label: tuple[int, int, int], then: tuple[int, int, int], arc: int
) -> bool:
    """Keep a label (time, waits, extra) at a node and number of partitions unless one there is as good.

    False where there is no place for it.
    """
    x, k = at
    time, waits, extra = label
    free = -1
    for p in range(table.time.shape[2]):
        if table.time[x, k, p] < 0:
            free = p if free < 0 else free
            continue
        ahead, more, kept = table.time[x, k, p], table.waits[x, k, p], table.extra[x, k, p]
        if ahead <= time and more <= waits and kept <= extra:
            return True
        if ahead >= time and more >= waits and kept >= extra:
            table.time[x, k, p] = -1
            free = p if free < 0 else free
    if free < 0:
        return False
    table.time[x, k, free], table.waits[x, k, free], table.extra[x, k, free] = time, waits, extra
    table.then[x, k, free, 0], table.then[x, k, free, 1], table.then[x, k, free, 2] = then
    table.arc[x, k, free] = arc
    return True


@njit(cache=True, nogil=True)
def stage_before(g: Graph, rules: Rules, ends: Ends, end: int, asked: Asked, table: Backward, work: IntArray) -> int:
    """Fill ``table`` with all Pareto labels of stages of at most so many picoseconds that end at ``end``, within
    its DRAM; the first place in the order with a label, or ``WIDE``.

    While partition I to J of a stage that ends with ideal E runs, there wait what J \\ I makes for kernels outside J,
    and what I holds for kernels of E \\ I. So going backwards from E all is known, whatever stages come before.
    """
    rest, most, streamed = ends.arcs.rest, table.time.shape[1] - 1, ends.arcs.streamed
    whole = g.sets[ends.ideal[end]]
    table.time[end, 0, 0] = table.waits[end, 0, 0] = table.extra[end, 0, 0] = 0
    place = lowest = ends.position[end]
    while place >= lowest:
        y = ends.order[place]
        place -= 1
        if table.time[y].max() < 0:
            continue
        work[0] += ends.streamed.first[y + 1] - ends.streamed.first[y]
        if work[0] > work[1]:
            return WIDE
        for a in range(ends.streamed.first[y], ends.streamed.first[y + 1]):
            x, number = ends.streamed.source[a], ends.streamed.number[a]
            cost, more, held = streamed.cost[number], streamed.extra[number], rest.bytes[end] - rest.bytes[x]
            here = -1
            for k in range(most + (not asked.counted)):
                for p in range(table.time.shape[2]):
                    time = table.time[y, k, p]
                    if time < 0 or time + cost > asked.below:
                        continue
                    if here < 0:
                        here = ends.streamed.made[a] + carried(g, rules, ends.signature[x], ends.ideal[x], whole)
                    waits, extra = max(table.waits[y, k, p], here), table.extra[y, k, p] + more
                    if held + extra + waits > rest.room:
                        continue
                    label, then = (time + cost, waits, extra), (y, k, p)
                    if not put(table, (x, min(k + 1, most)), label, then, number):
                        return WIDE
                    lowest = min(lowest, ends.position[x])
    return lowest


@njit(cache=True, nogil=True)
def clear(ends: Ends, table: Backward, end: int, lowest: int) -> None:
    """Empty the table after :func:`stage_before`."""
    for place in range(lowest, ends.position[end] + 1):
        table.time[ends.order[place]] = -1


@njit(cache=True, nogil=True)
def reach(
    g: Graph,
    rules: Rules,
    ends: Ends,
    asked: Asked,
    table: Backward,
    reached: Reached,
    work: IntArray,
) -> int:
    """Whether stages of at most so many picoseconds, as long transfers, each within its DRAM, take all kernels (1 or
    0); ``WIDE`` where there is no place for a label, or too much work. Fills ``reached``."""
    below, exactly = asked.below, asked.exactly
    pipeline, most, rest = reached.begin.shape[1] - 1, table.time.shape[1] - 1, ends.arcs.rest
    full, begin = ends.order[-1], ends.order[0]
    reached.begin[:], reached.stays[:] = -1, -1
    reached.begin[begin, 0] = begin
    for end in ends.order[1:]:
        if end != full and ends.arcs.links[end] > below:
            continue
        lowest = stage_before(g, rules, ends, end, asked, table, work)
        if lowest == WIDE:
            return WIDE
        for place in range(lowest, ends.position[end]):
            x = ends.order[place]
            if table.time[x, most if exactly else 1 :].max() < 0:
                continue
            for s in range(pipeline):
                if reached.begin[x, s] >= 0 and reached.begin[end, s + 1] < 0:
                    reached.begin[end, s + 1] = x
        clear(ends, table, end, lowest)
        if exactly and most != 1:
            continue
        # a stage may be one partition whose weights stay in SRAM
        for a in range(ends.resident.first[end], ends.resident.first[end + 1]):
            x, number = ends.resident.source[a], ends.resident.number[a]
            if ends.arcs.resident.cost[number] > below:
                continue
            waits = ends.resident.made[a]
            waits += carried(g, rules, ends.signature[x], ends.ideal[x], g.sets[ends.ideal[end]])
            held = rest.bytes[end] - rest.bytes[x] + ends.arcs.resident.extra[number]
            if held + waits > rest.room:
                continue
            for s in range(pipeline):
                if reached.begin[x, s] >= 0 and reached.begin[end, s + 1] < 0:
                    reached.begin[end, s + 1], reached.stays[end, s + 1] = x, number
    for s in range(1, pipeline + 1):
        if reached.begin[full, s] >= 0 and (s == pipeline or not exactly):
            return 1
    return 0
