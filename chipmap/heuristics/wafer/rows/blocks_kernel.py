"""Compiled parts of the row program for residual blocks: messages over short lists of a kernel's useful arguments.

An option is a row (h, w, c, pair, entry, parity, rotated): h, w, c as positions in the lists of useful values, ``pair``
and ``entry`` the numbers of (h, w) and (h, w, c) in them, parity that of the extent across the row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.rows.kernel import INF, Wire
from chipmap.heuristics.wafer.slicing.kernel import copy
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.arrays import integer_table, integers

H, W, C, PAIR, ENTRY, PARITY, ROTATED = range(7)


class Scratch(NamedTuple):
    """Least costs by the arguments that an option shares with another: one table per set of arguments, two parities."""

    entry: IntArray
    pair: IntArray
    hc: IntArray
    wc: IntArray
    h: IntArray
    w: IntArray
    c: IntArray
    least: IntArray


def scratch(entries: int, pairs: int, hs: int, ws: int, cs: int) -> Scratch:
    """Tables for that many entries, pairs (h, w) and values of h, w and c."""
    sizes: tuple[tuple[int, ...], ...] = ((entries,), (pairs,), (hs, cs), (ws, cs), (hs,), (ws,), (cs,), ())
    return Scratch(*(np.empty((2, *size), np.int64) for size in sizes))


@njit(part=True)
def fill(s: Scratch, options: IntArray, cost: IntArray) -> None:
    """Projects the options' costs on every set of shared arguments."""
    s.entry[:] = INF
    s.pair[:] = INF
    s.hc[:] = INF
    s.wc[:] = INF
    s.h[:] = INF
    s.w[:] = INF
    s.c[:] = INF
    s.least[:] = INF
    for i in range(len(options)):
        o, p, value = options[i], options[i, PARITY], cost[i]
        s.entry[p, o[ENTRY]] = min(s.entry[p, o[ENTRY]], value)
        s.pair[p, o[PAIR]] = min(s.pair[p, o[PAIR]], value)
        s.hc[p, o[H], o[C]] = min(s.hc[p, o[H], o[C]], value)
        s.wc[p, o[W], o[C]] = min(s.wc[p, o[W], o[C]], value)
        s.h[p, o[H]] = min(s.h[p, o[H]], value)
        s.w[p, o[W]] = min(s.w[p, o[W]], value)
        s.c[p, o[C]] = min(s.c[p, o[C]], value)
        s.least[p] = min(s.least[p], value)


@njit(part=True)
def _others(s: Scratch, o: IntArray, p: int, adapter: int) -> int:
    """The least cost at parity p plus ``adapter`` per argument that differs, one at least counted as differing."""
    one = min(s.pair[p, o[PAIR]], s.hc[p, o[H], o[C]], s.wc[p, o[W], o[C]])
    two = min(s.h[p, o[H]], s.w[p, o[W]], s.c[p, o[C]])
    return min(one + adapter, two + 2 * adapter, s.least[p] + 3 * adapter)


@njit(part=True)
def query(s: Scratch, o: IntArray, wire: Wire) -> int:
    """The least cost of an option that was filled in plus what a wire between it and ``o`` costs."""
    p = o[PARITY]
    same = min(s.entry[p, o[ENTRY]], _others(s, o, p, wire.adapter))
    other = min(s.entry[1 - p, o[ENTRY]], _others(s, o, 1 - p, wire.adapter))
    return min(same, other + wire.half)


@njit(cache=True, nogil=True)
def penalty(a: IntArray, b: IntArray, wire: Wire) -> int:
    """What a wire between the options ``a`` and ``b`` costs."""
    differ = int(a[H] != b[H]) + int(a[W] != b[W]) + int(a[C] != b[C])  # NumPy adds booleans to one
    return wire.adapter * differ + (wire.half if a[PARITY] != b[PARITY] else 0)


@njit(cache=True, nogil=True)
def undominated(s: Scratch, options: IntArray, cost: IntArray, wire: Wire) -> IntArray:
    """The options that no other one can replace at no loss, whatever the neighbours choose (as indices).

    ``wire`` holds the sums over all of the kernel's wires: to replace o by o' costs at most that per argument.
    """
    fill(s, options, cost)
    keep = integers(len(options), 0)
    for i in range(len(options)):
        o, p = options[i], options[i, PARITY]
        flipped = min(s.entry[1 - p, o[ENTRY]], _others(s, o, 1 - p, wire.adapter)) + wire.half
        if flipped < cost[i] or (flipped == cost[i] and p == 1) or s.entry[p, o[ENTRY]] < cost[i]:
            continue
        keep[i] = 1 if wire.adapter == 0 or _others(s, o, p, wire.adapter) > cost[i] else 0
    if wire.adapter == 0:
        for p in range(2):
            chosen = -1
            for i in range(len(options)):
                if options[i, PARITY] == p and keep[i] > 0:
                    keep[i] = 0
                    if chosen < 0 or cost[i] < cost[chosen]:
                        chosen = i
            if chosen >= 0:
                keep[chosen] = 1
    found, count = integers(len(keep), 0), 0
    for i in range(len(keep)):
        if keep[i] > 0:
            found[count] = i
            count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def list_edge(s: Scratch, options: IntArray, cost: IntArray, after: IntArray, wire: Wire) -> IntArray:
    """The message to the options ``after`` over a wire from ``options`` with costs ``cost``."""
    fill(s, options, cost)
    out = integers(len(after), 0)
    for i in range(len(after)):
        out[i] = query(s, after[i], wire)
    return out


class Inner(NamedTuple):
    """A kernel between the two ends of a block, joined to both: its options, their costs, and its two wires."""

    options: IntArray
    cost: IntArray
    before: Wire
    behind: Wire


@njit(part=True)
def add_inner(s: Scratch, first: IntArray, inner: Inner, after: IntArray, total: IntArray) -> None:
    """Adds to ``total`` [end options] the least cost of the inner kernel given the block's first kernel's option."""
    cost = integers(len(inner.options), 0)
    for x in range(len(cost)):
        cost[x] = inner.cost[x] + penalty(first, inner.options[x], inner.before)
    fill(s, inner.options, cost)
    for i in range(len(after)):
        total[i] += query(s, after[i], inner.behind)


@njit(cache=True, nogil=True)
def block_step(
    s: Scratch, options: IntArray, cost: IntArray, inners: tuple[Inner, ...], after: IntArray, direct: Wire
) -> IntArray:
    """The message from a block's first kernel to its end, over inner kernels in parallel and a wire past them.

    message(e) = min over f of cost(f) + direct(f, e) + Σ over inner i of min over x of cost_i(x) + wires.
    """
    out = integers(len(after), INF)
    for f in range(len(options)):
        total = integers(len(after), 0)
        for i in range(len(after)):
            total[i] = cost[f] + penalty(options[f], after[i], direct)
        for inner in inners:
            add_inner(s, options[f], inner, after, total)
        for i in range(len(after)):
            out[i] = min(out[i], total[i])
    return out


@njit(cache=True, nogil=True)
def trace_block(
    options: IntArray, cost: IntArray, inners: tuple[Inner, ...], end: IntArray, direct: Wire
) -> tuple[int, int, IntArray]:
    """The cheapest (value, first kernel's option, inner kernels' options) for the option ``end`` of the block's end."""
    best, first, chosen = INF, -1, integers(len(inners), -1)
    at = integers(len(inners), 0)
    for f in range(len(options)):
        total = cost[f] + penalty(options[f], end, direct)
        for i in range(len(inners)):
            least = INF
            inner = inners[i]
            for x in range(len(inner.options)):
                value = inner.cost[x] + penalty(options[f], inner.options[x], inner.before)
                value += penalty(inner.options[x], end, inner.behind)
                if value < least:
                    least, at[i] = value, x
            total += least
            if total >= best:
                break
        if total < best:
            best, first = total, f
            copy(at, chosen)
    return best, first, chosen


@njit(cache=True, nogil=True)
def strip_options(
    ks: IntArray, tiles: IntArray, c: IntArray, height: int, width: int, price: int
) -> tuple[IntArray, IntArray]:
    """Cost [2, entries] of a one-convolution kernel for either parity of its extent across the row, and its rotation.

    ``ks`` [entries] is its least k, ``tiles`` h · w and ``c`` the values of the entries. A rotated kernel's k may grow
    by one to reach a parity. INF where the strip (``height`` across, ``width`` along) has no room.
    """
    cost = integer_table(2, len(ks), INF)
    turned = integer_table(2, len(ks), 0)
    for j in range(len(ks)):
        k, tall = ks[j], tiles[j] * (c[j] + 1)
        if k == 0:
            continue
        if tall <= height and 3 * k <= width:
            cost[tall % 2, j] = 3 * k * price
        for p in range(2):
            padded = k + (k + p) % 2
            if tall <= width and 3 * padded <= height and tall * price < cost[p, j]:
                cost[p, j], turned[p, j] = tall * price, 1
    return cost, turned
