"""The compiled annealing of slicing trees (numba, cached, no fastmath, deterministic by its own generator).

A state is a slicing tree, an index into a grid of target times and an alignment of every rectangle in the room its
parent leaves it. A move changes the tree, mirrors or aligns a part of it, or changes the time. Only the curves on the
way from the changed nodes to the root are computed anew; a rejected move turns back to the curves it left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipmap.heuristics.wafer.slicing_kernel import Options, SideArray, combine, leaf_curve

Ints = NDArray[np.int64]
#: A score that no layout has.
WORST = 1 << 60


class Floor(NamedTuple):
    """What does not change: fabric [width, height], score weights [per quarter, per half tile], kernels and graph.

    ``types`` [n]; ``edges`` [m, 2]; ``start`` [n + 1] and ``near`` list each kernel's neighbours; ``taus`` [times] the
    grid of target times; ``curves`` [times, types, L + 1] with ``known`` [times] its parts computed so far.
    """

    fabric: Ints
    weights: Ints
    types: Ints
    edges: Ints
    start: Ints
    near: Ints
    options: Options
    taus: Ints
    curves: SideArray
    known: NDArray[np.bool_]


class Nodes(NamedTuple):
    """A slicing tree as in ``slicing.Tree``, with ``parent`` and ``align`` (0 low, 1 middle, 2 high).

    ``scalars``: root, index of the target time, height of the whole.
    """

    left: Ints
    right: Ints
    parent: Ints
    cut: Ints
    align: Ints
    scalars: Ints


class State(NamedTuple):
    """A tree at work: ``tree``; ``saved``, as it was before the move; ``best``, the best so far with its score.

    ``widths`` and ``heights`` [2, 2n - 1, L + 1] keep two versions of each node's curves, ``version`` [2n - 1] says
    which counts; ``stamp`` the last move that changed it. ``score``: current, best. ``random``: generator's state.
    """

    tree: Nodes
    saved: Nodes
    best: Nodes
    widths: SideArray
    heights: SideArray
    version: Ints
    stamp: Ints
    mark: Ints
    changed: Ints
    stack: Ints
    boxes: Ints
    score: Ints
    random: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def uniform(random: NDArray[np.uint64]) -> float:
    """The next number in [0, 1) of a 64-bit xorshift generator (Marsaglia; multiplier of Vigna)."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True, nogil=True)
def below(random: NDArray[np.uint64], bound: int) -> int:
    """A number in 0 .. bound - 1."""
    return int(uniform(random) * bound)


@njit(cache=True, nogil=True)
def copy_tree(source: Nodes, target: Nodes) -> None:
    """target = source."""
    target.left[:] = source.left
    target.right[:] = source.right
    target.parent[:] = source.parent
    target.cut[:] = source.cut
    target.align[:] = source.align
    target.scalars[:] = source.scalars


@njit(cache=True, nogil=True)
def _replace(tree: Nodes, parent: int, old: int, new: int) -> None:
    """Make ``new`` the child of ``parent`` (-1: the root) in the place of ``old``."""
    if parent < 0:
        tree.scalars[0] = new
    elif tree.left[parent] == old:
        tree.left[parent] = new
    else:
        tree.right[parent] = new
    tree.parent[new] = parent


@njit(cache=True, nogil=True)
def _inside(tree: Nodes, node: int, ancestor: int) -> bool:
    while node >= 0:
        if node == ancestor:
            return True
        node = tree.parent[node]
    return False


@njit(cache=True, nogil=True)
def swap(tree: Nodes, a: int, b: int) -> None:
    """Exchange two subtrees, neither within the other."""
    pa, pb = tree.parent[a], tree.parent[b]
    if pa == pb:
        tree.left[pa], tree.right[pa] = tree.right[pa], tree.left[pa]
        return
    _replace(tree, pa, a, b)
    _replace(tree, pb, b, a)


@njit(cache=True, nogil=True)
def graft(tree: Nodes, a: int, b: int, cut: int, first: bool) -> None:
    """Cut subtree ``a`` off and put it beside ``b`` (not within it, not its parent), before or after it."""
    p = tree.parent[a]
    sibling = tree.right[p] if tree.left[p] == a else tree.left[p]
    _replace(tree, tree.parent[p], p, sibling)
    _replace(tree, tree.parent[b], b, p)
    tree.left[p] = a if first else b
    tree.right[p] = b if first else a
    tree.parent[a] = tree.parent[b] = p
    tree.cut[p] = cut


@njit(cache=True, nogil=True)
def mirror(tree: Nodes, node: int, axis: int, stack: Ints) -> None:
    """Exchange the parts of every cut of kind ``axis`` within ``node``, and low with high across it."""
    stack[0] = node
    count = 1
    while count > 0:
        count -= 1
        at = stack[count]
        if tree.left[at] < 0:
            continue
        a, b = tree.left[at], tree.right[at]
        if tree.cut[at] == axis:
            tree.left[at], tree.right[at] = b, a
        else:
            tree.align[a] = 2 - tree.align[a]
            tree.align[b] = 2 - tree.align[b]
        stack[count], stack[count + 1] = a, b
        count += 2


@njit(cache=True, nogil=True)
def turn(tree: Nodes, node: int, stack: Ints) -> None:
    """Exchange the axes within ``node``."""
    stack[0] = node
    count = 1
    while count > 0:
        count -= 1
        at = stack[count]
        if tree.left[at] < 0:
            continue
        tree.cut[at] = 1 - tree.cut[at]
        stack[count], stack[count + 1] = tree.left[at], tree.right[at]
        count += 2


@njit(cache=True, nogil=True)
def _refresh(state: State, node: int, move: int) -> bool:
    """Compute a cut's curves anew; whether they differ from those before the move."""
    old = state.version[node]
    again = state.stamp[node] == move
    new = old if again else 1 - old
    a, b = state.tree.left[node], state.tree.right[node]
    va, vb = state.version[a], state.version[b]
    cut = state.tree.cut[node]
    widths, heights = state.widths, state.heights
    combine(cut, widths[va, a], heights[va, a], widths[vb, b], heights[vb, b], widths[new, node], heights[new, node])
    if again:
        return True
    ours, before = widths[new, node], widths[old, node]
    for h in range(len(ours)):
        if ours[h] != before[h]:
            _turn_version(state, node, move)
            return True
    return False


@njit(cache=True, nogil=True)
def _turn_version(state: State, node: int, move: int) -> None:
    state.version[node] = 1 - state.version[node]
    state.stamp[node] = move
    state.changed[state.changed[-1]] = node
    state.changed[-1] += 1


@njit(cache=True, nogil=True)
def refresh_paths(state: State, a: int, b: int, forced: int, move: int) -> None:
    """Compute anew the curves on the ways from ``a`` and ``b`` (-1: none) to the root.

    Above their meeting and above ``forced`` it stops where a curve stays the same.
    """
    parent = state.tree.parent
    if b >= 0:
        node = a
        while node >= 0:
            state.mark[node] = move
            node = parent[node]
        node = b
        while state.mark[node] != move:
            _refresh(state, node, move)
            node = parent[node]
        meeting = node
    else:
        meeting = a
    node, past, past_forced = a, False, forced < 0
    while node >= 0:
        differs = _refresh(state, node, move)
        past = past or node == meeting
        past_forced = past_forced or node == forced
        if past and past_forced and not differs and node != forced:
            break
        node = parent[node]


@njit(cache=True, nogil=True)
def _within(state: State, node: int) -> int:
    """Put the nodes within ``node`` on the stack, parents first; returns how many."""
    stack, tree = state.stack, state.tree
    stack[0] = node
    count, at = 1, 0
    while at < count:
        here = stack[at]
        at += 1
        if tree.left[here] >= 0:
            stack[count], stack[count + 1] = tree.left[here], tree.right[here]
            count += 2
    return count


@njit(cache=True, nogil=True)
def refresh_all(state: State, floor: Floor, node: int, leaves: bool, move: int) -> None:
    """Compute anew the curves of all cuts within ``node`` and, with ``leaves``, load those of the kernels."""
    count = _within(state, node)
    t = state.tree.scalars[1]
    if leaves and not floor.known[t]:
        for kind in range(floor.curves.shape[1]):
            leaf_curve(floor.options, kind, floor.taus[t], floor.curves[t, kind])
        floor.known[t] = True
    for at in range(count - 1, -1, -1):
        here = state.stack[at]
        if state.tree.left[here] >= 0:
            _refresh(state, here, move)
        elif leaves:
            new = 1 - state.version[here]
            state.widths[new, here] = floor.curves[t, floor.types[here]]
            state.heights[new, here] = state.widths[new, here]
            _turn_version(state, here, move)


@njit(cache=True, nogil=True)
def lay_out(state: State, floor: Floor, height: int) -> int:
    """Boxes of all nodes in doubled coordinates of their centres [.., 0:2] and sizes [.., 2:4]; the wire, half tiles."""
    tree, boxes, version = state.tree, state.boxes, state.version
    root = tree.scalars[0]
    v = version[root]
    wide = state.widths[v, root, height]
    boxes[root, 0], boxes[root, 1], boxes[root, 2], boxes[root, 3] = 0, 0, wide, state.heights[v, root, wide]
    stack = state.stack
    stack[0] = root
    count = 1
    while count > 0:
        count -= 1
        node = stack[count]
        a, b = tree.left[node], tree.right[node]
        if a < 0:
            continue
        va, vb = version[a], version[b]
        x, y, w, h = boxes[node, 0], boxes[node, 1], boxes[node, 2], boxes[node, 3]
        if tree.cut[node] == 0:
            wa, wb = state.widths[va, a, h], state.widths[vb, b, h]
            ha, hb = state.heights[va, a, wa], state.heights[vb, b, wb]
            boxes[a, 0], boxes[a, 1] = x, y + (h - ha) * tree.align[a] // 2
            boxes[b, 0], boxes[b, 1] = x + wa, y + (h - hb) * tree.align[b] // 2
        else:
            ha, hb = state.heights[va, a, w], state.heights[vb, b, w]
            wa, wb = state.widths[va, a, ha], state.widths[vb, b, hb]
            boxes[a, 0], boxes[a, 1] = x + (w - wa) * tree.align[a] // 2, y
            boxes[b, 0], boxes[b, 1] = x + (w - wb) * tree.align[b] // 2, y + ha
        boxes[a, 2], boxes[a, 3], boxes[b, 2], boxes[b, 3] = wa, ha, wb, hb
        stack[count], stack[count + 1] = a, b
        count += 2
    wire = 0
    for e in range(len(floor.edges)):
        a, b = floor.edges[e, 0], floor.edges[e, 1]
        wire += abs(2 * (boxes[a, 0] - boxes[b, 0]) + boxes[a, 2] - boxes[b, 2])
        wire += abs(2 * (boxes[a, 1] - boxes[b, 1]) + boxes[a, 3] - boxes[b, 3])
    return wire


@njit(cache=True, nogil=True)
def value(state: State, floor: Floor) -> int:
    """The score (ticks) of the tree at its time; WORST where it doesn't fit. Sets the height of the whole."""
    tree = state.tree
    root = tree.scalars[0]
    v = state.version[root]
    height = floor.fabric[1]
    if state.widths[v, root, height] > floor.fabric[0]:
        return WORST
    wire = lay_out(state, floor, height)
    tree.scalars[2] = height
    low = state.heights[v, root, floor.fabric[0]]
    if low < height:
        other = lay_out(state, floor, low)
        if other < wire:
            wire = other
            tree.scalars[2] = low
    return floor.weights[0] * floor.taus[tree.scalars[1]] + floor.weights[1] * wire


@njit(cache=True, nogil=True)
def _neighbour(state: State, floor: Floor, a: int) -> int:
    """A node near a graph neighbour of kernel ``a``: the neighbour or a rectangle round it."""
    if floor.start[a + 1] == floor.start[a]:
        return below(state.random, len(state.tree.left))
    b = floor.near[floor.start[a] + below(state.random, floor.start[a + 1] - floor.start[a])]
    while state.tree.parent[b] >= 0 and uniform(state.random) < 0.4:
        b = state.tree.parent[b]
    return b


@njit(cache=True, nogil=True)
def propose(state: State, floor: Floor, move: int) -> None:
    """Change the tree by one random move and compute the curves anew."""
    tree, random = state.tree, state.random
    size = len(tree.left)
    n = (size + 1) // 2
    r = uniform(random)
    if r < 0.55:  # graft or swap, half the time a kernel beside its neighbour in the graph
        leaf = uniform(random) < 0.6
        a = below(random, n) if leaf else below(random, size)
        b = _neighbour(state, floor, a) if leaf and uniform(random) < 0.5 else below(random, size)
        if _inside(tree, b, a) or _inside(tree, a, b):
            if a == b or tree.parent[a] < 0 or _inside(tree, b, a) or tree.parent[a] == b:
                return
            r = 0.0
        if r < 0.3:
            p = tree.parent[a]
            if b == p:
                return
            old = tree.parent[p]
            graft(tree, a, b, below(random, 2), uniform(random) < 0.5)
            refresh_paths(state, p, old, p, move)
        else:
            swap(tree, a, b)
            refresh_paths(state, tree.parent[a], tree.parent[b], -1, move)
        return
    node = n + below(random, n - 1)
    if r < 0.65:
        tree.cut[node] = 1 - tree.cut[node]
        if uniform(random) < 0.5:
            tree.left[node], tree.right[node] = tree.right[node], tree.left[node]
        refresh_paths(state, node, -1, -1, move)
    elif r < 0.8:
        mirror(tree, node, below(random, 2), state.stack)
    elif r < 0.88:
        tree.left[node], tree.right[node] = tree.right[node], tree.left[node]
    elif r < 0.96:
        tree.align[below(random, size)] = below(random, 3)
    else:
        turn(tree, node, state.stack)
        refresh_all(state, floor, node, False, move)
        if tree.parent[node] >= 0:
            refresh_paths(state, tree.parent[node], -1, -1, move)


@njit(cache=True, nogil=True)
def restart(state: State, floor: Floor) -> None:
    """Compute everything of the tree as it stands."""
    state.changed[-1] = 0
    state.stamp[:] = -1
    refresh_all(state, floor, state.tree.scalars[0], True, 0)
    state.changed[-1] = 0
    state.score[0] = value(state, floor)
    if state.score[0] < state.score[1]:
        state.score[1] = state.score[0]
        copy_tree(state.tree, state.best)


@njit(cache=True, nogil=True)
def anneal(state: State, floor: Floor, moves: int, hot: float, cold: float, ease: float) -> int:
    """``moves`` moves while the temperature (ticks) falls from ``hot`` to ``cold``; how many were accepted.

    A share ``ease`` of the moves changes the target time, half of these nothing else.
    """
    tree, random = state.tree, state.random
    accepted = 0
    ratio = np.log(cold / hot) / moves
    copy_tree(tree, state.saved)
    state.stamp[:] = -1
    state.mark[:] = -1
    for move in range(1, moves + 1):
        state.changed[-1] = 0
        timed = uniform(random) < ease
        if timed:
            step = 1
            while step < 32 and uniform(random) < 0.5:
                step *= 2
            tree.scalars[1] += step if uniform(random) < 0.5 else -step
            tree.scalars[1] = min(max(tree.scalars[1], 0), len(floor.taus) - 1)
            refresh_all(state, floor, tree.scalars[0], True, move)
        if not timed or uniform(random) < 0.5:
            propose(state, floor, move)
        score = value(state, floor)
        worse = score - state.score[0]
        if worse <= 0 or (score < WORST and uniform(random) < np.exp(-worse / (hot * np.exp(ratio * move)))):
            state.score[0] = score
            copy_tree(tree, state.saved)
            accepted += 1
            if score < state.score[1]:
                state.score[1] = score
                copy_tree(tree, state.best)
        else:
            for at in range(state.changed[-1]):
                state.version[state.changed[at]] = 1 - state.version[state.changed[at]]
            copy_tree(state.saved, tree)
    return accepted
