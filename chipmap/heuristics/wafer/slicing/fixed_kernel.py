"""The compiled annealing of slicing trees whose kernels have one box each (:mod:`.fixed`)."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.wafer.slicing.exchange_kernel import Graph
from chipmap.heuristics.wafer.slicing.moves_kernel import (
    ALIGN,
    CUT,
    LEFT,
    PARENT,
    RIGHT,
    ROOT,
    below,
    copy_tree,
    graft,
    inside,
    mirror,
    swap,
    within,
)
from chipmap.instances.wafer.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature, uniform

#: One more row of a tree than the search has: the shape of each kernel.
SHAPE = 5
#: Rows of the work space: the nodes from the root down, and their boxes (left, bottom, width, height).
ORDER, X, Y, W, H = range(5)
#: Columns of the shapes: width, height, and what adapters compare: h, w, c in and c out.
WIDTH, HEIGHT, PORTS = range(3)
#: Moves by cumulated probability: two kernels of a type change places and boxes, a cut's sides are exchanged, a kernel
#: takes another shape, an alignment changes, a part is mirrored, a cut turns, two parts change places, two cuts of the
#: same kind are regrouped. The rest puts a part elsewhere.
EQUAL, SIDES, OTHER_SHAPE, ALIGNMENT, MIRROR, TURN, SWAP, REGROUP = 0.25, 0.40, 0.48, 0.52, 0.55, 0.57, 0.77, 0.82
#: How often the part that moves is a single kernel; how often that goes to a neighbour in the graph; how often the next
#: larger rectangle round that neighbour is taken instead.
SINGLE, TO_NEIGHBOUR, LARGER = 0.7, 0.6, 0.4
#: Moves between two temperatures.
STEADY = 256


class Boxes(NamedTuple):
    """What does not change: ``shapes`` [count, 6], those of type t are first[t] .. first[t + 1] - 1; ``edges`` [m, 2]
    (producer, consumer); ``sides`` [2] of the fabric."""

    shapes: IntArray
    first: IntArray
    edges: IntArray
    sides: IntArray


class FixedState(NamedTuple):
    """A tree [6, 2n] at work, as it was before the move, and the best so far; ``work`` [5, 2n]; ``score`` [2]: ticks of
    the wires and adapters of the current and of the best one; the generator's state."""

    tree: IntArray
    saved: IntArray
    best: IntArray
    work: IntArray
    score: IntArray
    random: NDArray[np.uint64]


@njit(part=True)
def fits(tree: IntArray, work: IntArray, shapes: IntArray, sides: IntArray) -> bool:
    """Whether the tree's boxes lie within the fabric; their sizes go to ``work``."""
    count = within(tree, tree[ROOT, -1], work[ORDER])
    for at in range(count - 1, -1, -1):
        here = work[ORDER, at]
        a, b, axis = tree[LEFT, here], tree[RIGHT, here], tree[CUT, here]
        if a < 0:
            work[W, here] = shapes[tree[SHAPE, here], WIDTH]
            work[H, here] = shapes[tree[SHAPE, here], HEIGHT]
        else:
            work[W + axis, here] = work[W + axis, a] + work[W + axis, b]
            work[H - axis, here] = max(work[H - axis, a], work[H - axis, b])
    root = tree[ROOT, -1]
    return bool(work[W, root] <= sides[0] and work[H, root] <= sides[1])


@njit(part=True)
def put(tree: IntArray, work: IntArray) -> None:
    """Lower left corners of all nodes whose sizes :func:`fits` has found."""
    root = tree[ROOT, -1]
    work[X, root], work[Y, root] = 0, 0
    for at in range(tree.shape[1] - 1):
        here = work[ORDER, at]
        if tree[LEFT, here] < 0:
            continue
        axis, before = tree[CUT, here], 0
        for child in (tree[LEFT, here], tree[RIGHT, here]):
            free = work[H - axis, here] - work[H - axis, child]
            work[X + axis, child] = work[X + axis, here] + before
            work[Y - axis, child] = work[Y - axis, here] + free * tree[ALIGN, child] // 2
            before = work[W + axis, child]


@njit(cache=True, nogil=True)
def lay_out(tree: IntArray, work: IntArray, shapes: IntArray, sides: IntArray) -> bool:
    """The boxes of all nodes, in ``work``; whether they lie within the fabric."""
    fitting = fits(tree, work, shapes, sides)
    put(tree, work)
    return bool(fitting)


@njit(part=True)
def cost(tree: IntArray, work: IntArray, shapes: IntArray, edges: IntArray, ticks: IntArray) -> int:
    """Ticks of all wires and adapters."""
    length = differ = 0
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        length += abs(2 * work[X, u] + work[W, u] - 2 * work[X, v] - work[W, v])
        length += abs(2 * work[Y, u] + work[H, u] - 2 * work[Y, v] - work[H, v])
        if ticks[1] > 0:
            a, b = tree[SHAPE, u], tree[SHAPE, v]
            differ += int(shapes[a, PORTS] != shapes[b, PORTS])
            differ += int(shapes[a, PORTS + 1] != shapes[b, PORTS + 1])
            differ += int(shapes[a, PORTS + 3] != shapes[b, PORTS + 2])
    return int(ticks[0] * length + ticks[1] * differ)


@njit(part=True)
def _regroup(tree: IntArray, node: int) -> bool:
    """((a b) c) becomes (a (b c)) and the reverse, where both cuts are of the same kind.

    No box moves along the cut; across it, one may where it isn't aligned low.
    """
    above = tree[PARENT, node]
    if above < 0 or tree[CUT, above] != tree[CUT, node]:
        return False
    near, far = (RIGHT, LEFT) if tree[LEFT, above] == node else (LEFT, RIGHT)
    # ``node`` is the far child of ``above`` and becomes the near one
    a, b, c = tree[far, node], tree[near, node], tree[near, above]
    tree[far, above], tree[near, above], tree[far, node], tree[near, node] = a, node, b, c
    tree[PARENT, a] = above
    tree[PARENT, c] = node
    return True


@njit(part=True)
def _elsewhere(tree: IntArray, graph: Graph, random: NDArray[np.uint64]) -> bool:
    """Put a part of the tree beside another one, often a kernel beside its neighbour in the graph."""
    count = tree.shape[1] - 1
    n = (count + 1) // 2
    a = below(random, n if uniform(random) < SINGLE else count)
    b = below(random, count)
    if a < n and graph.start[a + 1] > graph.start[a] and uniform(random) < TO_NEIGHBOUR:
        b = graph.near[graph.start[a] + below(random, graph.start[a + 1] - graph.start[a]), 0]
        while tree[PARENT, b] >= 0 and uniform(random) < LARGER:
            b = tree[PARENT, b]
    if tree[PARENT, a] < 0 or b == tree[PARENT, a] or inside(tree, b, a):
        return False
    graft(tree, a, b, below(random, 2), uniform(random) < 0.5)
    return True


@njit(part=True)
def _propose(tree: IntArray, stack: IntArray, graph: Graph, first: IntArray, random: NDArray[np.uint64]) -> bool:
    """Change the tree by one random move; False where nothing changed."""
    count = tree.shape[1] - 1
    n = (count + 1) // 2
    r = uniform(random)
    i, node = below(random, n), n + below(random, n - 1)
    t = graph.types[i]
    if r < EQUAL:
        j = graph.members[graph.first[t] + below(random, graph.first[t + 1] - graph.first[t])]
        if i == j:
            return False
        swap(tree, i, j)
        for row in (SHAPE, ALIGN):
            tree[row, i], tree[row, j] = tree[row, j], tree[row, i]
    elif r < SIDES:
        tree[LEFT, node], tree[RIGHT, node] = tree[RIGHT, node], tree[LEFT, node]
    elif r < OTHER_SHAPE:
        tree[SHAPE, i] = first[t] + below(random, first[t + 1] - first[t])
    elif r < ALIGNMENT:
        tree[ALIGN, below(random, count)] = below(random, 3)
    elif r < MIRROR:
        mirror(tree, node, below(random, 2), stack)
    elif r < TURN:
        tree[CUT, node] = 1 - tree[CUT, node]
    elif r < SWAP:
        a, b = i if uniform(random) < 0.5 else below(random, count), below(random, count)
        if inside(tree, a, b) or inside(tree, b, a):
            return False
        swap(tree, a, b)
    elif r < REGROUP:
        return bool(_regroup(tree, node))
    else:
        return bool(_elsewhere(tree, graph, random))
    return True


@njit(cache=True, nogil=True, long=True)
def anneal(graph: Graph, boxes: Boxes, state: FixedState, moves: int, hot: float, cold: float) -> None:
    """``moves`` moves at temperatures (ticks) that fall from ``hot`` to ``cold``, over trees that fit the fabric.

    The tree of the state fits. The first call's score is [0, the largest number].
    """
    tree, saved, best, work, score, random = state
    shapes, first, edges, sides = boxes
    ticks, heat = graph.ticks, hot
    fits(tree, work, shapes, sides)
    put(tree, work)
    score[0] = cost(tree, work, shapes, edges, ticks)
    copy_tree(tree, saved)
    for move in range(moves + 1):
        if score[0] < score[1]:
            score[1] = score[0]
            copy_tree(tree, best)
        if move % STEADY == 0:
            heat = temperature(hot, cold, move / max(1, moves))
        if not _propose(tree, work[ORDER], graph, first, random):
            continue
        taken = False
        if fits(tree, work, shapes, sides):
            put(tree, work)
            new = cost(tree, work, shapes, edges, ticks)
            taken = new <= score[0] - heat * log(1 - uniform(random))
        if taken:
            score[0] = new
            copy_tree(tree, saved)
        else:
            copy_tree(saved, tree)
