"""The state of the search over slicing trees and its random moves (numba, cached).

A state is a slicing tree, an index into a grid of target times and an alignment of every rectangle in the room its
parent leaves it. Everything lies in few arrays: an array of a record costs compile time in every function that it is
handed to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.wafer.slicing.kernel import SideArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import uniform

Ints = NDArray[np.int64]
#: A score that no layout has.
WORST = 1 << 60
#: Rows of a tree [5, 2n]: as in ``slicing.Tree``, with the parent and the alignment (0 low, 1 middle, 2 high). Its last
#: column holds the root, the index of the target time and the height of the whole.
LEFT, RIGHT, PARENT, CUT, ALIGN = range(5)
ROOT, TIME, TALL = range(3)
#: Rows of the work space: which version of a node's curves counts, the last move that changed it, a mark, the nodes
#: changed by this move (their number in the last column), a stack, the axes known of versions 0 and 1 (bit 1: widths
#: per height, bit 2: heights per width), and the nodes' boxes.
VERSION, STAMP, MARK, CHANGED, STACK, KNOWN, KNOWN_1, X, Y, W, H = range(11)
#: Entries of ``State.plan``, the nodes (-1: none) from which a move's curves are computed anew: a subtree as a whole,
#: the ways up from two nodes, and a node whose parent is reached at least.
WHOLE, FIRST, SECOND, FORCED = range(4)
#: Entries of ``Floor.numbers``: fabric, ticks per quarter, per half tile, per adapter and per tile beyond the fabric's
#: height (0: not allowed).
WIDE, HIGH, PER_TIME, PER_WIRE, PER_ADAPTER, PER_OVER = range(6)
#: Moves by cumulated probability: a part goes elsewhere, two parts change places, a cut turns (half of the time with
#: its sides exchanged), a part is mirrored, a cut's sides are exchanged, an alignment changes. The rest exchanges the
#: axes of a part. These and the probabilities below are those of the published results on the contest's 20 inputs.
GRAFT, SWAP, TURN, MIRROR, SIDES, ALIGNMENT = 0.3, 0.55, 0.65, 0.8, 0.88, 0.96
#: How often the part that moves is a single kernel; how often that goes to a neighbour in the graph; how often the next
#: larger rectangle round that neighbour is taken instead.
SINGLE, TO_NEIGHBOUR, LARGER = 0.6, 0.5, 0.4
#: Steps of the target time double with this probability, up to a limit.
DOUBLE, LONGEST_STEP = 0.5, 32


class Floor(NamedTuple):
    """What does not change.

    ``numbers`` [6]; ``types`` [n]; ``edges`` [m, 2]; ``start`` [n + 1] and ``near`` list each kernel's neighbours;
    ``taus`` [times] is the grid of target times, ``table`` [times, types, L + 1] the box curves at them and ``choice``
    the options behind; ``arguments`` [options, 4] their heights, h, w and c.
    """

    numbers: Ints
    types: Ints
    edges: Ints
    start: Ints
    near: Ints
    taus: Ints
    table: SideArray
    choice: SideArray
    arguments: Ints


class SlicingTreeState(NamedTuple):
    """A tree at work, as it was before the move, and the best so far; curves [version, axis, node, L + 1].

    ``score``: current, best. ``random``: the generator's state.
    """

    tree: Ints
    saved: Ints
    best: Ints
    curves: SideArray
    work: Ints
    plan: Ints
    score: Ints
    random: NDArray[np.uint64]


@njit(part=True)
def below(random: NDArray[np.uint64], bound: int) -> int:
    """A number in 0 .. bound - 1."""
    return int(uniform(random) * bound)


@njit(part=True)
def copy_tree(source: Ints, target: Ints) -> None:
    """Make ``target`` the same tree as ``source``."""
    for row in range(len(source)):
        for node in range(source.shape[1]):
            target[row, node] = source[row, node]


@njit(part=True)
def _replace(tree: Ints, parent: int, old: int, new: int) -> None:
    """Make ``new`` the child of ``parent`` (-1: the root) in the place of ``old``."""
    if parent < 0:
        tree[ROOT, -1] = new
    elif tree[LEFT, parent] == old:
        tree[LEFT, parent] = new
    else:
        tree[RIGHT, parent] = new
    tree[PARENT, new] = parent


@njit(part=True)
def inside(tree: Ints, node: int, ancestor: int) -> bool:
    """Whether ``node`` is ``ancestor`` or below it."""
    while node >= 0:
        if node == ancestor:
            return True
        node = tree[PARENT, node]
    return False


@njit(part=True)
def swap(tree: Ints, a: int, b: int) -> None:
    """Exchange two subtrees, neither within the other."""
    pa, pb = tree[PARENT, a], tree[PARENT, b]
    if pa == pb:
        tree[LEFT, pa], tree[RIGHT, pa] = tree[RIGHT, pa], tree[LEFT, pa]
        return
    _replace(tree, pa, a, b)
    _replace(tree, pb, b, a)


@njit(part=True)
def graft(tree: Ints, a: int, b: int, cut: int, first: bool) -> None:
    """Cut subtree ``a`` off and put it beside ``b`` (not within it, not its parent), before or after it."""
    p = tree[PARENT, a]
    sibling = tree[RIGHT, p] if tree[LEFT, p] == a else tree[LEFT, p]
    _replace(tree, tree[PARENT, p], p, sibling)
    _replace(tree, tree[PARENT, b], b, p)
    tree[LEFT, p] = a if first else b
    tree[RIGHT, p] = b if first else a
    tree[PARENT, a] = p
    tree[PARENT, b] = p
    tree[CUT, p] = cut


@njit(part=True)
def within(tree: Ints, node: int, stack: Ints) -> int:
    """Put the nodes within ``node`` on the stack, parents first; returns how many."""
    stack[0] = node
    count, at = 1, 0
    while at < count:
        here = stack[at]
        at += 1
        if tree[LEFT, here] >= 0:
            stack[count], stack[count + 1] = tree[LEFT, here], tree[RIGHT, here]
            count += 2
    return count


@njit(part=True)
def mirror(tree: Ints, node: int, axis: int, stack: Ints) -> None:
    """Exchange the parts of every cut of kind ``axis`` within ``node``, and low with high across it."""
    for at in range(within(tree, node, stack)):
        here = stack[at]
        if tree[LEFT, here] < 0:
            continue
        a, b = tree[LEFT, here], tree[RIGHT, here]
        if tree[CUT, here] == axis:
            tree[LEFT, here], tree[RIGHT, here] = b, a
        else:
            tree[ALIGN, a] = 2 - tree[ALIGN, a]
            tree[ALIGN, b] = 2 - tree[ALIGN, b]


@njit(part=True)
def _neighbour(state: SlicingTreeState, floor: Floor, a: int) -> int:
    """A node near a graph neighbour of kernel ``a``: the neighbour or a rectangle round it."""
    if floor.start[a + 1] == floor.start[a]:
        return below(state.random, 2 * len(floor.types) - 1)
    b = floor.near[floor.start[a] + below(state.random, floor.start[a + 1] - floor.start[a])]
    while state.tree[PARENT, b] >= 0 and uniform(state.random) < LARGER:
        b = state.tree[PARENT, b]
    return b


@njit(part=True)
def _move_part(state: SlicingTreeState, floor: Floor, grafted: bool) -> bool:
    """Move a part of the tree elsewhere or exchange two, often a kernel to its neighbour in the graph."""
    tree, random, plan = state.tree, state.random, state.plan
    n = len(floor.types)
    leaf = uniform(random) < SINGLE
    a = below(random, n if leaf else 2 * n - 1)
    b = _neighbour(state, floor, a) if leaf and uniform(random) < TO_NEIGHBOUR else below(random, 2 * n - 1)
    p = tree[PARENT, a]
    if p < 0 or inside(tree, b, a) or b == p:
        return False
    if grafted or inside(tree, a, b):
        plan[FIRST], plan[SECOND], plan[FORCED] = p, tree[PARENT, p], p
        graft(tree, a, b, below(random, 2), uniform(random) < 0.5)
    else:
        swap(tree, a, b)
        if a >= n or b >= n or floor.types[a] != floor.types[b]:
            plan[FIRST], plan[SECOND] = tree[PARENT, a], tree[PARENT, b]
    return True


@njit(part=True)
def propose(state: SlicingTreeState, floor: Floor) -> bool:
    """Change the tree by one random move and plan what to compute anew; False where nothing changed."""
    tree, random, plan = state.tree, state.random, state.plan
    n = len(floor.types)
    r = uniform(random)
    if r < SWAP:
        return _move_part(state, floor, r < GRAFT)
    node = n + below(random, n - 1)
    if r < TURN:
        tree[CUT, node] = 1 - tree[CUT, node]
        plan[FIRST] = node
        r = 0.0 if uniform(random) < 0.5 else 1.0
    if r < TURN or MIRROR <= r < SIDES:
        tree[LEFT, node], tree[RIGHT, node] = tree[RIGHT, node], tree[LEFT, node]
    elif r < MIRROR:
        mirror(tree, node, below(random, 2), state.work[STACK])
    elif r < ALIGNMENT:
        kernel = below(random, 2 * n - 1)
        before = tree[ALIGN, kernel]
        tree[ALIGN, kernel] = below(random, 3)
        return bool(tree[ALIGN, kernel] != before)
    elif plan[FIRST] < 0:  # exchange the axes
        stack = state.work[STACK]
        for at in range(within(tree, node, stack)):
            if tree[LEFT, stack[at]] >= 0:
                tree[CUT, stack[at]] = 1 - tree[CUT, stack[at]]
        plan[WHOLE], plan[FIRST] = node, tree[PARENT, node]
    return True


@njit(part=True)
def step_time(state: SlicingTreeState, times: int) -> None:
    """Change the target time by some steps of the grid, few more often than many."""
    tree, random = state.tree, state.random
    step = 1
    while step < LONGEST_STEP and uniform(random) < DOUBLE:
        step *= 2
    time = tree[TIME, -1] + (step if uniform(random) < 0.5 else -step)
    tree[TIME, -1] = min(max(time, 0), times - 1)
