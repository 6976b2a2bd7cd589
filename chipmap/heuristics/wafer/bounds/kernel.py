"""Compiled sweeps of the lower bounds (numba, one thread): attainable times, states, messages of the elimination."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.instances.wafer.problem import ceil_div, least_k
from chipmap.kernels import njit
from chipmap.kernels.arrays import floats, integers

#: More quarters of a step than any kernel takes.
NEVER = np.int64(1) << np.int64(60)
INFINITE = np.inf


@njit(cache=True, nogil=True)
def next_time(conv: Any, steps: Any, least: int) -> Any:
    """The smallest time (quarters) >= ``least`` that some h, w, c, k give ``conv``; NEVER if none.

    ``steps`` [4, m]: the distinct values of ⌈H/h⌉, ⌈W/w⌉, ⌈C/c⌉, ⌈K/k⌉, ascending, filled up with zeros.
    """
    best = NEVER
    area = conv[2] * conv[3] * conv[7] * 4
    square = conv[6] * conv[6] * conv[8]
    for a in steps[0]:
        for b in steps[1]:
            for c in steps[2]:
                if a * b * c == 0:
                    break
                low, high = 0, 0
                while high < steps.shape[1] and steps[3, high] > 0:
                    high += 1
                last = high
                while low < high:
                    middle = (low + high) // 2
                    if ceil_div(a * b * c * steps[3, middle] * area, square) >= least:
                        high = middle
                    else:
                        low = middle + 1
                if low < last:
                    best = min(best, np.int64(ceil_div(a * b * c * steps[3, low] * area, square)))
    return best


@njit(cache=True, nogil=True)
def boxes(convs: Any, triples: Any, tau: int, memory: int, limit: int) -> Any:
    """[m] the least width (unrotated) of a kernel with each (h, w, c) within ``tau``; 0 where over ``limit``."""
    widths = integers(len(triples), 0)
    for t in range(len(triples)):
        width = 0
        for i in range(len(convs)):
            k = least_k(convs[i], triples[t, 0], triples[t, 1], triples[t, 2], tau, memory)
            if k == 0 or width + 3 * k > limit:
                width = 0
                break
            width += 3 * k
        widths[t] = width
    return widths


@njit(part=True)
def _project(state: Any, coefficients: Any, merges: Any, table: Any) -> None:
    """table[e, g] = min over the states s of group g of values[s] + coefficients[e] · (x, y)[s].

    ``state`` = (values, x, y, groups). Groups of the finest mask get the least of their states, all others the least of
    the groups within them.
    """
    values, x, y, groups = state
    for e in range(len(coefficients)):
        row = table[e]
        for g in range(len(row)):
            row[g] = INFINITE
        for s in range(len(values)):
            value = values[s] + coefficients[e, 0] * x[s] + coefficients[e, 1] * y[s]
            if value < row[groups[s]]:
                row[groups[s]] = value
        for k in range(len(merges)):
            if row[merges[k, 0]] < row[merges[k, 1]]:
                row[merges[k, 1]] = row[merges[k, 0]]


@njit(part=True)
def _combine(root: Any, number: int, own: Any, total: Any, merges: Any, best: Any) -> None:
    """Take a case where it is the cheapest so far for a state of the root: ``best`` = (added [s], cases [s]).

    ``total`` [groups]: adapters and all members' least costs where they agree with the root on a group. A group of the
    finest mask gets the least of all groups that hold it.
    """
    for k in range(len(merges) - 1, -1, -1):
        if total[merges[k, 1]] < total[merges[k, 0]]:
            total[merges[k, 0]] = total[merges[k, 1]]
    x, y, groups = root
    added, cases = best
    constant, across, up = own
    for s in range(len(x)):
        value = constant + across * x[s] + up * y[s] + total[groups[s]]
        if value < added[s]:
            added[s], cases[s] = value, number


@njit(cache=True, nogil=True)
def message(members: Any, root: Any, shape: Any, lattice: Any) -> Any:
    """What a cluster adds to each state of its root, and the case that gives it.

    ``members`` = (values, x, y, groups, start): the states of the other members one after the other, of member j at
    [start[j], start[j + 1]); ``root`` = (x, y, groups); ``shape`` = (coefficients [e, 2], chosen [cases, members],
    root coefficients [cases, 2], constants [cases]); ``lattice`` = (merges [k, 2], cost of each group): see
    :class:`.states.Lattice`. A case costs its constant and Σ coefficients · (x, y) over all members. Returns added [s]
    and cases [s].
    """
    values, x, y, groups, start = members
    coefficients, chosen, own, constants = shape
    merges, costs = lattice
    count = chosen.shape[1]
    table = np.empty((count, len(coefficients), len(costs)))
    for j in range(count):
        a, b = start[j], start[j + 1]
        _project((values[a:b], x[a:b], y[a:b], groups[a:b]), coefficients, merges, table[j])
    best = floats(len(root[0]), INFINITE), integers(len(root[0]), 0)
    total = np.empty(len(costs))
    for c in range(len(chosen)):
        for g in range(len(total)):
            value = costs[g]
            for j in range(count):
                value += table[j, chosen[c, j], g]
            total[g] = value
        _combine(root, c, (constants[c], own[c, 0], own[c, 1]), total, merges, best)
    return best


@njit(cache=True, nogil=True)
def picks(members: Any, group: int, coefficients: Any, lattice: Any) -> Any:
    """[members] the states that go with a root in the finest group ``group``, each with its ``coefficients`` [j, 2].

    ``members`` as in :func:`message`; ``lattice`` = (numbers of the finest groups by mask, cost of each mask).
    """
    values, x, y, groups, start = members
    numbers, costs = lattice
    count = len(start) - 1
    least = floats(count * len(costs), INFINITE)
    where = integers(count * len(costs), 0)
    for j in range(count):
        for s in range(start[j], start[j + 1]):
            value = values[s] + coefficients[j, 0] * x[s] + coefficients[j, 1] * y[s]
            for m in range(len(costs)):
                at = j * len(costs) + m
                if value < least[at] and numbers[groups[s], m] == numbers[group, m]:
                    least[at], where[at] = value, s - start[j]
    best, mask = INFINITE, 0
    for m in range(len(costs)):
        value = costs[m]
        for j in range(count):
            value += least[j * len(costs) + m]
        if value < best:
            best, mask = value, m
    found = integers(count, 0)
    for j in range(count):
        found[j] = where[j * len(costs) + mask]
    return found
