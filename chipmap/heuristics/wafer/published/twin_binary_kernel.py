"""The compiled annealing on twin binary trees (numba; one thread, cached)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.wafer.slicing.moves_kernel import below
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature, uniform

#: How often a move takes another shape of a kernel, and how often it swaps two kernels; else it rotates a tree.
RESHAPE, SWAP = 0.4, 0.3
#: How often another shape is one of the next REACH, and how often swapped kernels are neighbours on the diagonal.
NEAR, NEXT, REACH = 0.7, 0.5, 6


class Fronts(NamedTuple):
    """Shapes of all types: rows first[t]..first[t + 1] of ``box`` [s, 2] and ``ports`` [s, 4] (h, w, c in, c out)."""

    first: IntArray
    box: IntArray
    ports: IntArray


class Task(NamedTuple):
    """What is annealed: types [n], edges [m, 2], the fabric's sides, ticks of a half tile, adapter, tile too many."""

    types: IntArray
    edges: IntArray
    side: IntArray
    ticks: IntArray


class TwinTreeState(NamedTuple):
    """Two trees [2, 3, n + 1] (parent, left, right; 0 is none), kernels along the diagonal [n + 1], shapes [n]."""

    tree: IntArray
    order: IntArray
    shape: IntArray


class Layouts(NamedTuple):
    """The layouts of an annealing: the present one, the one being tried, and the best so far."""

    now: TwinTreeState
    trial: TwinTreeState
    best: TwinTreeState


class Schedule(NamedTuple):
    """``steps`` moves by the generator ``random``; the temperature (ticks) falls from ``hot`` to ``cold``."""

    steps: int
    random: Any
    hot: float
    cold: float


class Room(NamedTuple):
    """Scratch: leaf intervals [2, 2, n + 1], a stack, lines [2, n + 1], and the kernels' x and y."""

    span: IntArray
    stack: IntArray
    line: IntArray
    x: IntArray
    y: IntArray


@njit(part=True)
def intervals(tree: Any, n: int, span: Any, stack: Any) -> None:
    """First and last leaf below each node 1..n: the leaves 0..n lie between the nodes in order."""
    root = 1
    while tree[0, root] > 0:
        root = tree[0, root]
    stack[0], span[0, root], span[1, root], depth = root, 0, n, 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        left, right = tree[1, i], tree[2, i]
        if left > 0:
            span[0, left], span[1, left], stack[depth] = span[0, i], i - 1, left
            depth += 1
        if right > 0:
            span[0, right], span[1, right], stack[depth] = i, span[1, i], right
            depth += 1


@njit(part=True)
def rotate(tree: Any, x: int, side: int) -> None:
    """Rotate the child y of ``x`` on that side (1 left, 2 right) above it; the subtree between them changes hands."""
    other = 3 - side
    y = tree[side, x]
    middle, above = tree[other, y], tree[0, x]
    tree[side, x] = middle
    if middle > 0:
        tree[0, middle] = x
    tree[other, y], tree[0, x], tree[0, y] = x, y, above
    if above > 0:
        tree[1 if tree[1, above] == x else 2, above] = y


@njit(part=True)
def turn(tree: Any, which: int, x: int, side: int) -> int:
    """A rotation that keeps the trees twins: 0 impossible, 1 in one tree, 2 in both.

    Where a leaf changes hands in one tree, between nodes v and v + 1, it does so in the other too, the other way.
    """
    y = tree[which, side, x]
    if y <= 0:
        return 0
    if tree[which, 3 - side, y] > 0:
        rotate(tree[which], x, side)
        return 1
    if tree[1 - which, 3 - side, y] != x or tree[1 - which, side, x] > 0:
        return 0
    rotate(tree[which], x, side)
    rotate(tree[1 - which], y, 3 - side)
    return 2


@njit(cache=True, nogil=True)
def pack(state: TwinTreeState, fronts: Fronts, room: Room) -> tuple[int, int]:
    """Compact packing: every line of the floorplan as far left or low as its kernels let it; (width, height).

    Room i spans the lines from the first leaf of i in tree 1 to its last leaf in tree 0 across, and from the last leaf
    in tree 1 up to the first leaf in tree 0.
    """
    n = len(state.shape)
    for which in range(2):
        intervals(state.tree[which], n, room.span[which], room.stack)
    for v in range(n + 1):
        room.line[0, v] = room.line[1, v] = 0
    # Rooms that end at line v come before those that start there: one pass each way settles every line.
    for i in range(1, n + 1):
        k = state.order[i]
        end, at = room.span[0, 1, i], room.line[0, room.span[1, 0, i]]
        room.x[k] = at
        room.line[0, end] = max(room.line[0, end], at + fronts.box[state.shape[k], 0])
    for i in range(n, 0, -1):
        k = state.order[i]
        end, at = room.span[0, 0, i], room.line[1, room.span[1, 1, i]]
        room.y[k] = at
        room.line[1, end] = max(room.line[1, end], at + fronts.box[state.shape[k], 1])
    return int(room.line[0, n]), int(room.line[1, 0])


@njit(part=True)
def cost(task: Task, state: TwinTreeState, fronts: Fronts, room: Room) -> tuple[float, bool]:
    """(ticks of wire, adapters and tiles beyond the fabric; whether the floorplan fits it)."""
    width, height = pack(state, fronts, room)
    over = max(0, width - task.side[0]) + max(0, height - task.side[1])
    total = task.ticks[2] * over
    for e in range(len(task.edges)):
        u, v = task.edges[e, 0], task.edges[e, 1]
        a, b = state.shape[u], state.shape[v]
        total += task.ticks[0] * abs(2 * room.x[u] + fronts.box[a, 0] - 2 * room.x[v] - fronts.box[b, 0])
        total += task.ticks[0] * abs(2 * room.y[u] + fronts.box[a, 1] - 2 * room.y[v] - fronts.box[b, 1])
        p, q = fronts.ports[a], fronts.ports[b]
        total += task.ticks[1] * (int(p[0] != q[0]) + int(p[1] != q[1]) + int(p[3] != q[2]))
    return float(total), over == 0


@njit(part=True)
def _copy(target: TwinTreeState, source: TwinTreeState) -> None:
    for i in range(source.tree.shape[2]):
        target.order[i] = source.order[i]
        for which in range(2):
            for link in range(3):
                target.tree[which, link, i] = source.tree[which, link, i]
    for k in range(len(source.shape)):
        target.shape[k] = source.shape[k]


@njit(part=True)
def _move(task: Task, state: TwinTreeState, fronts: Fronts, random: Any) -> bool:
    """A random move: a shape near the present one or any, a swap of two kernels, or a rotation."""
    n = len(task.types)
    draw = uniform(random)
    if draw < RESHAPE or n == 1:
        k = below(random, n)
        low, high = fronts.first[task.types[k]], fronts.first[task.types[k] + 1]
        shape = low + below(random, high - low)
        if uniform(random) < NEAR:
            shape = min(high - 1, max(low, state.shape[k] - REACH + below(random, 2 * REACH + 1)))
        if shape == state.shape[k]:
            return False
        state.shape[k] = shape
        return True
    if draw < RESHAPE + SWAP:
        i, j = 1 + below(random, n), 1 + below(random, n)
        if uniform(random) < NEXT:
            j = i % n + 1
        if i == j:
            return False
        state.order[i], state.order[j] = state.order[j], state.order[i]
        return True
    return turn(state.tree, below(random, 2), 1 + below(random, n), 1 + below(random, 2)) > 0


@njit(cache=True, nogil=True, long=True)
def anneal(task: Task, fronts: Fronts, layouts: Layouts, room: Room, schedule: Schedule) -> tuple[float, bool]:
    """The moves of ``schedule`` from the present layout, at a temperature that falls geometrically.

    The best floorplan is left in ``layouts.best``: one that fits before any that doesn't. Returns its cost and whether
    it fits.
    """
    now, trial, best = layouts
    random = schedule.random
    value, fits = cost(task, now, fronts, room)
    _copy(best, now)
    least, least_fits = value, fits
    for step in range(schedule.steps):
        _copy(trial, now)
        if not _move(task, trial, fronts, random):
            continue
        new, new_fits = cost(task, trial, fronts, room)
        heat = temperature(schedule.hot, schedule.cold, step / schedule.steps)
        if new > value and uniform(random) >= np.exp((value - new) / heat):
            continue
        _copy(now, trial)
        value = new
        if (new_fits and not least_fits) or (new_fits == least_fits and new < least):
            _copy(best, now)
            least, least_fits = new, new_fits
    return least, least_fits
