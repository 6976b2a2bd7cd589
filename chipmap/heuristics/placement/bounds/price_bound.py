"""Work shared out over devices that differ: bounds on T1 and T2 of family ``placement``.

Give each device d a price a(d) >= 0, and let A be the sum of all prices. If device d works for at most L(d), then
Σ a(d) · (time of the operations on d) <= Σ a(d) · L(d). Wherever operation v runs, it costs at least
w(v) = min over its devices of a(d) · p(v, d), so Σ w <= Σ a(d) · L(d). Hence, for any prices:

- **work**: T1 and T2 are at least ⌈Σ w / A⌉. A group (C1) runs on one device, so it counts as one operation;
- **interval**: what has a head of h or more and a tail of t or more runs between h and T1 - t on each device, so
  T1 >= h + t + ⌈Σ w / A⌉, the sum over these operations.

With equal prices, which are tried first, this is the least time of each operation over the number of devices. Prices
are shadow prices of sharing operations out in fractions: the best ones give that linear program's value. They are
sought by class of devices, one after the other (the bound is concave in the shares a / A), and any are valid. All sums
are whole numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.bounds.simple import HeadsAndTails
from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: The greatest price, and how far sums of prices times times may go.
PRICE, ROOM = 8_192, 2**61
#: Rounds over the classes, and steps of a search within one.
ROUNDS, STEPS = 3, 24
#: Prices that an interval is tried with.
TRIES = 3
#: Prices of classes differ by at most this factor.
FARTHEST = 1_000.0
Real = NDArray[np.float64]


def alike(problem: PlacementProblem) -> bool:
    """Whether each operation takes the same time on all devices."""
    return bool((problem.time == problem.time[:, :1]).all())


def work(problem: PlacementProblem) -> int:
    """⌈Σ w / A⌉ of all groups, at equal prices or the best ones found."""
    first = np.unique(problem.group)
    time = np.zeros_like(problem.time)
    np.add.at(time, problem.group, problem.time)
    allowed = np.ones_like(problem.allowed)
    np.logical_and.at(allowed, problem.group, problem.allowed)
    time, allowed = time[first], allowed[first]
    if not allowed.any(axis=1).all():
        return 0
    tried = np.ones(problem.devices, dtype=np.int64), prices(problem, time, allowed)
    return max(-(-int(costs(time, allowed, price).sum()) // int(price.sum())) for price in tried)


def interval(problem: PlacementProblem, w: HeadsAndTails) -> int:
    """max over h, t of h + ⌈Σ w{e >= h, q >= t} / A⌉ + t, at the prices that were found."""
    return interval_with(problem, w)[0]


def interval_with(problem: PlacementProblem, w: HeadsAndTails) -> tuple[int, IntArray]:
    """(the interval bound, the operations behind it); prices are equal at first, then those for the best so far."""
    best, behind = 0, np.arange(problem.operations)
    price = np.ones(problem.devices, dtype=np.int64)
    for _ in range(0 if not problem.operations else 1 if alike(problem) else TRIES):
        value, found = largest_interval(w, costs(problem.time, problem.allowed, price), int(price.sum()))
        if value > best:
            best, behind = value, found
        price = prices(problem, problem.time[behind], problem.allowed[behind])
    return best, behind


def largest_interval(w: HeadsAndTails, cost: IntArray, total: int) -> tuple[int, IntArray]:
    """(the bound at these costs, the operations behind it): the largest t · A + Σ w over tails t, for every head h.

    Operations enter by falling head, a block of them at a time. Between two tails of a block's operations all sums grow
    alike, so only the largest is kept: N operations take N^1.5 steps. A tail counts once one with it has entered.
    """
    n, (by_tail, by_head) = len(cost), (np.argsort(-one, kind="stable") for one in (w.tail, w.head))
    place = np.empty(n, dtype=np.int64)
    place[by_tail] = np.arange(n)
    sums = w.tail[by_tail].astype(object if (int(w.tail.max()) + 1) * total >= ROOM else np.int64) * total
    best, head, first = 0, 0, int(place[by_head[0]])
    for begin in range(0, n, size := 1 + math.isqrt(n)):
        block = by_head[begin : begin + size]
        starts = np.unique([0, first, *place[block]])
        least = np.minimum.accumulate(np.minimum(place[block], first))
        entered = np.where(place[block, None] <= starts, cost[block, None], 0).cumsum(axis=0)
        values = np.where(starts >= least[:, None], np.maximum.reduceat(sums, starts) + entered, 0).max(axis=1)
        found = -(-values // total) + w.head[block]
        if int(found.max()) > best:
            best, head = int(found.max()), int(w.head[block[found.argmax()]])
        sums += np.repeat(entered[-1], np.diff(np.append(starts, n)))
        first = int(least[-1])
    return best, _behind(w, cost, total, head, by_tail)


def _behind(w: HeadsAndTails, cost: IntArray, total: int, head: int, by_tail: IntArray) -> IntArray:
    """The operations with that head or more that give the largest bound."""
    chosen = by_tail[w.head[by_tail] >= head]
    values = -(-np.cumsum(cost[chosen]) // total) + w.tail[chosen]
    return chosen[: int(values.argmax()) + 1]


def costs(time: IntArray, allowed: NDArray[np.bool_], price: IntArray) -> IntArray:
    """w [N] of operations with ``time`` and ``allowed`` [N, D], at prices [D]."""
    found: IntArray = np.where(allowed, np.where(allowed, time, 0) * price, ROOM).min(axis=1)
    return found


def prices(problem: PlacementProblem, time: IntArray, allowed: NDArray[np.bool_]) -> IntArray:
    """Prices [D] at which Σ w / A is large: whole numbers, one above 0 at least; all 1 where devices are alike."""
    if (time == time[:, :1]).all():
        return np.ones(problem.devices, dtype=np.int64)
    names = [device.kind for device in problem.instance.system.devices]
    kinds = np.array([names.index(name) for name in names])
    real = np.where(allowed, time, np.inf).astype(np.float64)
    price = np.ones(problem.devices)
    for _ in range(ROUNDS):
        for kind in np.unique(kinds)[1:]:
            price[kinds == kind] = _best_price(real, price, kinds == kind)
    most = max(1, min(PRICE, ROOM // max(1, problem.horizon)))
    whole = np.maximum(np.rint(price / price.max() * most), 0).astype(np.int64)
    return np.ones_like(whole) if not whole.any() else whole


def _best_price(time: Real, price: Real, mine: NDArray[np.bool_]) -> float:
    """The price of the devices ``mine`` that suits best while the others keep theirs, by a ternary search."""

    def value(log: float) -> float:
        tried = np.where(mine, math.exp(log), price)
        return float((time * tried).min(axis=1).sum() / tried.sum())

    other = float(price[~mine].mean())
    low, high = math.log(other / FARTHEST), math.log(other * FARTHEST)
    for _ in range(STEPS):
        third = (high - low) / 3
        if value(low + third) < value(high - third):
            low += third
        else:
            high -= third
    return math.exp((low + high) / 2)
