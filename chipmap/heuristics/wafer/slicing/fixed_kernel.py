"""The compiled annealing of slicing trees whose kernels have one box each (:mod:`.fixed`).

A move tells how it is undone, sizes are computed anew on the ways from what moved to the root, and only as far as they
change. Places and costs are computed where the tree fits.
"""

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
#: Rows of the work space: nodes to look at, their widths and heights, their lower left corners, and those after the
#: move at hand; then the nodes that the move resized, and their widths and heights before.
STACK, W, H, X, Y, NEXT, RESIZED = 0, 1, 2, 3, 4, 5, 7
ROWS = 10
#: Columns of the shapes: width, height, and what adapters compare: h, w, c in and c out.
WIDTH, HEIGHT, PORTS = range(3)
#: Kinds of moves: two kernels of a type change places and boxes, a cut's sides are exchanged, a kernel takes another
#: shape, an alignment changes, a part is mirrored, a cut turns, two parts change places, two cuts of the same kind are
#: regrouped, a part goes elsewhere.
NOTHING, EQUAL, SIDES, OTHER_SHAPE, ALIGNMENT, MIRROR, TURN, SWAP, REGROUP, ELSEWHERE = range(10)
#: Their cumulated probabilities from EQUAL to REGROUP; the rest is for the last one.
PARTS = (0.25, 0.40, 0.48, 0.52, 0.55, 0.57, 0.77, 0.82)
#: How often the part that moves is a single kernel; how often that goes to a neighbour in the graph; how often the next
#: larger rectangle round that neighbour is taken instead.
SINGLE, TO_NEIGHBOUR, LARGER = 0.7, 0.6, 0.4
#: Moves between two temperatures.
STEADY = 256
#: No cost is as large.
UNLIMITED = 1e18


class Boxes(NamedTuple):
    """What does not change: ``shapes`` [count, 6], those of type t are first[t] .. first[t + 1] - 1; ``edges`` [m, 2]
    (producer, consumer); ``sides`` [2] of the fabric."""

    shapes: IntArray
    first: IntArray
    edges: IntArray
    sides: IntArray


class FixedState(NamedTuple):
    """A tree [6, 2n] at work and the best so far; ``work`` [ROWS, 4n]; the ``move`` [5] at hand, its kind first;
    ``score`` [2]: ticks of the wires and adapters of the current and of the best one; the generator's state."""

    tree: IntArray
    best: IntArray
    work: IntArray
    move: IntArray
    score: IntArray
    random: NDArray[np.uint64]


@njit(part=True)
def _resize(tree: IntArray, work: IntArray, shapes: IntArray, node: int, count: int) -> int:
    """Sizes from ``node`` (-1: nothing) up to the first that stays; the number of nodes resized, ``count`` before."""
    while node >= 0:
        a, b, axis = tree[LEFT, node], tree[RIGHT, node], tree[CUT, node]
        if a < 0:
            width, height = shapes[tree[SHAPE, node], WIDTH], shapes[tree[SHAPE, node], HEIGHT]
        elif axis == 0:
            width, height = work[W, a] + work[W, b], max(work[H, a], work[H, b])
        else:
            width, height = max(work[W, a], work[W, b]), work[H, a] + work[H, b]
        if width == work[W, node] and height == work[H, node]:
            break
        work[RESIZED, count], work[RESIZED + 1, count], work[RESIZED + 2, count] = node, work[W, node], work[H, node]
        work[W, node], work[H, node] = width, height
        count += 1
        node = tree[PARENT, node]
    return count


@njit(part=True)
def resize(tree: IntArray, work: IntArray, shapes: IntArray, move: IntArray) -> int:
    """Sizes after a change of :func:`change`, which left in ``move`` how it is undone; the number of nodes resized."""
    kind, a, b = move[0], move[1], move[2]
    count = 0
    if kind == EQUAL:
        for row in (W, H):
            work[row, a], work[row, b] = work[row, b], work[row, a]
    elif kind in (OTHER_SHAPE, TURN):
        count = _resize(tree, work, shapes, a, count)
    elif kind == REGROUP:
        count = _resize(tree, work, shapes, a, count)
        count = _resize(tree, work, shapes, tree[PARENT, a], count)
    elif kind == SWAP:
        count = _resize(tree, work, shapes, tree[PARENT, a], count)
        count = _resize(tree, work, shapes, tree[PARENT, b], count)
    elif kind == ELSEWHERE:
        # what was above the part, then what is above it now, and once more if the latter has its old size
        above = tree[PARENT, a]
        count = _resize(tree, work, shapes, tree[PARENT, b], count)
        count = _resize(tree, work, shapes, above, count)
        count = _resize(tree, work, shapes, tree[PARENT, above], count)
    return count


@njit(part=True)
def _sizes(tree: IntArray, work: IntArray, shapes: IntArray) -> None:
    """Widths and heights of all nodes."""
    for at in range(within(tree, tree[ROOT, -1], work[STACK]) - 1, -1, -1):
        work[W, work[STACK, at]] = -1
        _resize(tree, work, shapes, work[STACK, at], 0)


@njit(part=True)
def _put(tree: IntArray, work: IntArray, first: int) -> None:
    """Lower left corners of all nodes, from their sizes; they go to the rows ``first`` and the next."""
    root = tree[ROOT, -1]
    work[first, root], work[first + 1, root], work[STACK, 0] = 0, 0, root
    count = 1
    while count:
        count -= 1
        here = work[STACK, count]
        a, b, axis = tree[LEFT, here], tree[RIGHT, here], tree[CUT, here]
        if a < 0:
            continue
        along, across = first + axis, first + 1 - axis
        low, room = work[across, here], work[H - axis, here]
        work[along, a] = work[along, here]
        work[along, b] = work[along, here] + work[W + axis, a]
        work[across, a] = low + (room - work[H - axis, a]) * tree[ALIGN, a] // 2
        work[across, b] = low + (room - work[H - axis, b]) * tree[ALIGN, b] // 2
        work[STACK, count], work[STACK, count + 1] = a, b
        count += 2


@njit(cache=True, nogil=True)
def lay_out(tree: IntArray, work: IntArray, shapes: IntArray, sides: IntArray) -> bool:
    """The boxes of all nodes, in ``work``; whether they lie within the fabric."""
    _sizes(tree, work, shapes)
    _put(tree, work, X)
    root = tree[ROOT, -1]
    return bool(work[W, root] <= sides[0] and work[H, root] <= sides[1])


@njit(part=True)
def _between(work: IntArray, first: int, u: int, v: int) -> int:
    """Half tiles between the centres of two kernels."""
    along = abs(2 * work[first, u] + work[W, u] - 2 * work[first, v] - work[W, v])
    return int(along + abs(2 * work[first + 1, u] + work[H, u] - 2 * work[first + 1, v] - work[H, v]))


@njit(part=True)
def _differ(shapes: IntArray, a: int, b: int) -> int:
    """Adapters between a producer and a consumer of these shapes."""
    differ = int(shapes[a, PORTS] != shapes[b, PORTS]) + int(shapes[a, PORTS + 1] != shapes[b, PORTS + 1])
    return differ + int(shapes[a, PORTS + 3] != shapes[b, PORTS + 2])


@njit(part=True)
def cost(
    tree: IntArray, work: IntArray, first: int, shapes: IntArray, edges: IntArray, ticks: IntArray, limit: float
) -> int:
    """Ticks of all wires and adapters, corners being in the rows ``first`` and the next; beyond ``limit`` a part."""
    total = 0
    for e in range(len(edges)):
        u, v = edges[e, 0], edges[e, 1]
        total += ticks[0] * _between(work, first, u, v)
        if ticks[1] > 0:
            total += ticks[1] * _differ(shapes, tree[SHAPE, u], tree[SHAPE, v])
        if total > limit:
            break
    return int(total)


@njit(part=True)
def _own(tree: IntArray, work: IntArray, first: int, shapes: IntArray, graph: Graph, i: int) -> int:
    """Ticks of the wires and adapters of kernel ``i``."""
    length = differ = 0
    for e in range(graph.start[i], graph.start[i + 1]):
        j = graph.near[e, 0]
        length += _between(work, first, i, j)
        if graph.ticks[1] > 0:
            u, v = (i, j) if graph.near[e, 1] else (j, i)
            differ += _differ(shapes, tree[SHAPE, u], tree[SHAPE, v])
    return int(graph.ticks[0] * length + graph.ticks[1] * differ)


@njit(part=True)
def _regroup(tree: IntArray, node: int) -> None:
    """((a b) c) becomes (a (b c)) and the reverse; ``node`` and the cut above it are of the same kind.

    No box moves along the cut; across it, one may where it isn't aligned low.
    """
    above = tree[PARENT, node]
    near, far = (RIGHT, LEFT) if tree[LEFT, above] == node else (LEFT, RIGHT)
    # ``node`` is the far child of ``above`` and becomes the near one
    a, b, c = tree[far, node], tree[near, node], tree[near, above]
    tree[far, above], tree[near, above], tree[far, node], tree[near, node] = a, node, b, c
    tree[PARENT, a] = above
    tree[PARENT, c] = node


@njit(part=True)
def _elsewhere(tree: IntArray, move: IntArray) -> None:
    """Part a goes beside b, by which cut, and as its first side or not."""
    a, above = move[1], tree[PARENT, move[1]]
    before = tree[LEFT, above] == a
    sibling, cut = tree[RIGHT if before else LEFT, above], tree[CUT, above]
    graft(tree, a, move[2], move[3], move[4] == 1)
    move[2], move[3], move[4] = sibling, cut, int(before)


@njit(part=True)
def change(tree: IntArray, move: IntArray, stack: IntArray) -> None:
    """Do a move; ``move`` is then the one that undoes it."""
    kind, a, b = move[0], move[1], move[2]
    if kind == EQUAL:
        swap(tree, a, b)
        for row in (SHAPE, ALIGN):
            tree[row, a], tree[row, b] = tree[row, b], tree[row, a]
    elif kind == SIDES:
        tree[LEFT, a], tree[RIGHT, a] = tree[RIGHT, a], tree[LEFT, a]
    elif kind == OTHER_SHAPE:
        move[2], tree[SHAPE, a] = tree[SHAPE, a], b
    elif kind == ALIGNMENT:
        move[2], tree[ALIGN, a] = tree[ALIGN, a], b
    elif kind == MIRROR:
        mirror(tree, a, b, stack)
    elif kind == TURN:
        tree[CUT, a] = 1 - tree[CUT, a]
    elif kind == SWAP:
        swap(tree, a, b)
    elif kind == REGROUP:
        _regroup(tree, a)
    elif kind == ELSEWHERE:
        _elsewhere(tree, move)


@njit(part=True)
def _part_elsewhere(tree: IntArray, move: IntArray, graph: Graph, random: NDArray[np.uint64]) -> None:
    """Choose a part of the tree and what it goes beside, often a kernel and its neighbour in the graph."""
    count = tree.shape[1] - 1
    n = (count + 1) // 2
    a = below(random, n if uniform(random) < SINGLE else count)
    b = below(random, count)
    if a < n and graph.start[a + 1] > graph.start[a] and uniform(random) < TO_NEIGHBOUR:
        b = graph.near[graph.start[a] + below(random, graph.start[a + 1] - graph.start[a]), 0]
        while tree[PARENT, b] >= 0 and uniform(random) < LARGER:
            b = tree[PARENT, b]
    if tree[PARENT, a] < 0 or b == tree[PARENT, a] or inside(tree, b, a):
        return
    move[0], move[1], move[2], move[3], move[4] = ELSEWHERE, a, b, below(random, 2), int(uniform(random) < 0.5)


@njit(part=True)
def propose(tree: IntArray, move: IntArray, graph: Graph, first: IntArray, random: NDArray[np.uint64]) -> None:
    """Choose a random move; its kind is NOTHING where it would change nothing."""
    count = tree.shape[1] - 1
    n = (count + 1) // 2
    r, kind = uniform(random), EQUAL
    while kind <= REGROUP and r >= PARTS[kind - 1]:
        kind += 1
    move[0] = NOTHING
    if kind == ELSEWHERE:
        _part_elsewhere(tree, move, graph, random)
        return
    a, b = below(random, n), 0
    t = graph.types[a]
    if kind == EQUAL:
        b = graph.members[graph.first[t] + below(random, graph.first[t + 1] - graph.first[t])]
        possible = a != b
    elif kind == OTHER_SHAPE:
        b = first[t] + below(random, first[t + 1] - first[t])
        possible = b != tree[SHAPE, a]
    elif kind == ALIGNMENT:
        a, b = below(random, count), below(random, 3)
        possible = b != tree[ALIGN, a]
    elif kind == SWAP:
        a, b = a if uniform(random) < 0.5 else below(random, count), below(random, count)
        possible = not inside(tree, a, b) and not inside(tree, b, a)
    else:
        a, b = n + below(random, n - 1), below(random, 2)
        above = tree[PARENT, a]
        possible = kind != REGROUP or (above >= 0 and tree[CUT, above] == tree[CUT, a])
    if possible:
        move[0], move[1], move[2] = kind, a, b


@njit(part=True)
def _equal(state: FixedState, boxes: Boxes, graph: Graph, at: int, heat: float) -> None:
    """Two kernels of a type change places and boxes, unless that costs too much: all others stay where they are."""
    tree, _, work, move, score, random = state
    a, b = move[1], move[2]
    # an edge between the two counts twice, before and after
    more = -_own(tree, work, at, boxes.shapes, graph, a) - _own(tree, work, at, boxes.shapes, graph, b)
    for again in range(2):
        change(tree, move, work[STACK])
        resize(tree, work, boxes.shapes, move)
        for row in (at, at + 1):
            work[row, a], work[row, b] = work[row, b], work[row, a]
        if again:
            return
        more += _own(tree, work, at, boxes.shapes, graph, a) + _own(tree, work, at, boxes.shapes, graph, b)
        if more <= -heat * log(1 - uniform(random)):
            score[0] += more
            return


@njit(part=True)
def _others(state: FixedState, boxes: Boxes, graph: Graph, at: int, heat: float) -> bool:
    """Any other move, unless it doesn't fit or costs too much; whether it is done, with corners in the other rows."""
    tree, _, work, move, score, random = state
    other = X + NEXT - at
    change(tree, move, work[STACK])
    count = resize(tree, work, boxes.shapes, move)
    root = tree[ROOT, -1]
    if work[W, root] <= boxes.sides[0] and work[H, root] <= boxes.sides[1]:
        limit = score[0] - heat * log(1 - uniform(random))
        _put(tree, work, other)
        new = cost(tree, work, other, boxes.shapes, boxes.edges, graph.ticks, limit)
        if new <= limit:
            score[0] = new
            return True
    change(tree, move, work[STACK])
    for k in range(count - 1, -1, -1):
        node = work[RESIZED, k]
        work[W, node], work[H, node] = work[RESIZED + 1, k], work[RESIZED + 2, k]
    return False


@njit(cache=True, nogil=True, long=True)
def anneal(graph: Graph, boxes: Boxes, state: FixedState, moves: int, hot: float, cold: float) -> None:
    """``moves`` moves at temperatures (ticks) that fall from ``hot`` to ``cold``, over trees that fit the fabric.

    The tree of the state fits. The first call's score is [0, the largest number].
    """
    tree, best, work, move, score, random = state
    heat, at = hot, X
    _sizes(tree, work, boxes.shapes)
    _put(tree, work, at)
    score[0] = cost(tree, work, at, boxes.shapes, boxes.edges, graph.ticks, UNLIMITED)
    for step in range(moves + 1):
        if score[0] < score[1]:
            score[1] = score[0]
            copy_tree(tree, best)
        if step % STEADY == 0:
            heat = temperature(hot, cold, step / max(1, moves))
        propose(tree, move, graph, boxes.first, random)
        if move[0] == EQUAL:
            _equal(state, boxes, graph, at, heat)
        elif move[0] != NOTHING and _others(state, boxes, graph, at, heat):
            at = X + NEXT - at
