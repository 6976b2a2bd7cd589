"""Compiled sweeps of the lower bounds (numba, one thread): attainable times, states, messages of the elimination."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.instances.wafer.problem import ceil_div, least_k
from chipmap.kernels import njit
from chipmap.kernels.arrays import floats, integer_table, integers

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
def _project(values: Any, x: Any, y: Any, groups: Any, coefficients: Any, table: Any, where: Any) -> None:
    """table[e, g] = min over the states s of group g of values[s] + coefficients[e] · (x, y)[s]; where = argmin.

    ``groups`` [states, masks] numbers the groups of all masks through.
    """
    for e in range(len(coefficients)):
        for g in range(table.shape[1]):
            table[e, g] = INFINITE
        for s in range(len(values)):
            value = values[s] + coefficients[e, 0] * x[s] + coefficients[e, 1] * y[s]
            for m in range(groups.shape[1]):
                g = groups[s, m]
                if value < table[e, g]:
                    table[e, g] = value
                    where[e, g] = s


@njit(part=True)
def _combine(state: Any, root: Any, chosen: Any, masks: Any, table: Any, best: float, pick: Any) -> float:
    """The cheapest case and mask for one state of the root; ``pick`` receives (case, mask)."""
    x, y, groups = state
    coefficients, constants = root
    costs, everything = masks
    for c in range(len(chosen)):
        own = constants[c] + coefficients[c, 0] * x + coefficients[c, 1] * y
        floor = own
        for j in range(chosen.shape[1]):
            floor += table[j, chosen[c, j], everything]
        if floor >= best:
            continue
        for m in range(len(costs)):
            value = own + costs[m]
            for j in range(chosen.shape[1]):
                value += table[j, chosen[c, j], groups[m]]
            if value < best:
                best = value
                pick[0], pick[1] = c, m
    return best


@njit(cache=True, nogil=True)
def message(members: Any, root: Any, shape: Any, masks: Any, groups: int) -> Any:
    """What a cluster adds to each state of its root, and the members' states and the case that give it.

    ``members`` = (values, x, y, groups, start): the states of the other members one after the other, of member j at
    [start[j], start[j + 1]); ``root`` = (x, y, groups); ``shape`` = (coefficients [e, 2], chosen [cases, members],
    root coefficients [cases, 2], constants [cases]); ``masks`` = (cost of each mask [m], number of the group of
    everything). A case costs its constant and Σ coefficients · (x, y) over all members. Returns added [s] and picks
    [s, members + 1].
    """
    values, x, y, member_groups, start = members
    root_x, root_y, root_groups = root
    coefficients, chosen, own, constants = shape
    count = chosen.shape[1]
    table = np.empty((count, len(coefficients), groups))
    where = np.zeros((count, len(coefficients), groups), np.int64)
    for j in range(count):
        a, b = start[j], start[j + 1]
        _project(values[a:b], x[a:b], y[a:b], member_groups[a:b], coefficients, table[j], where[j])
    result = floats(len(root_x), INFINITE)
    picks = integer_table(len(root_x), count + 1, 0)
    pick = integers(2, 0)
    for s in range(len(root_x)):
        state = (root_x[s], root_y[s], root_groups[s])
        result[s] = _combine(state, (own, constants), chosen, masks, table, INFINITE, pick)
        if result[s] < INFINITE:
            for j in range(count):
                picks[s, j] = where[j, chosen[pick[0], j], root_groups[s, pick[1]]]
            picks[s, count] = pick[0]
    return result, picks
