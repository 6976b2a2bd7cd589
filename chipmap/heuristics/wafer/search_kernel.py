"""The compiled annealing of slicing trees (numba, cached, no fastmath, deterministic by its own generator).

A state is a slicing tree, an index into a grid of target times and an alignment of every rectangle in the room its
parent leaves it. A move changes the tree, mirrors or aligns a part of it, or changes the time. Only the curves on the
way from the changed nodes to the root are computed anew, and of a node's two curves (least width per height, least
height per width) only those asked for; a rejected move turns back to the curves it left.

Everything lies in few arrays and long functions are called from one place each: an array of a record costs compile
time in every function that it is handed to, a call what the function costs, since all of it is inlined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipmap.heuristics.wafer.slicing_kernel import SideArray, add, copy, invert

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
#: Entries of ``Floor.numbers``: fabric, ticks per quarter and per half tile.
WIDE, HIGH, PER_TIME, PER_WIRE = range(4)


class Floor(NamedTuple):
    """What does not change.

    ``numbers`` [4]; ``types`` [n]; ``edges`` [m, 2]; ``start`` [n + 1] and ``near`` list each kernel's neighbours;
    ``taus`` [times] is the grid of target times and ``table`` [times, types, L + 1] the box curves at them.
    """

    numbers: Ints
    types: Ints
    edges: Ints
    start: Ints
    near: Ints
    taus: Ints
    table: SideArray


class State(NamedTuple):
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
def _copy_tree(source: Ints, target: Ints) -> None:
    for row in range(len(source)):
        for node in range(source.shape[1]):
            target[row, node] = source[row, node]


@njit(cache=True, nogil=True)
def _replace(tree: Ints, parent: int, old: int, new: int) -> None:
    """Make ``new`` the child of ``parent`` (-1: the root) in the place of ``old``."""
    if parent < 0:
        tree[ROOT, -1] = new
    elif tree[LEFT, parent] == old:
        tree[LEFT, parent] = new
    else:
        tree[RIGHT, parent] = new
    tree[PARENT, new] = parent


@njit(cache=True, nogil=True)
def _inside(tree: Ints, node: int, ancestor: int) -> bool:
    while node >= 0:
        if node == ancestor:
            return True
        node = tree[PARENT, node]
    return False


@njit(cache=True, nogil=True)
def swap(tree: Ints, a: int, b: int) -> None:
    """Exchange two subtrees, neither within the other."""
    pa, pb = tree[PARENT, a], tree[PARENT, b]
    if pa == pb:
        tree[LEFT, pa], tree[RIGHT, pa] = tree[RIGHT, pa], tree[LEFT, pa]
        return
    _replace(tree, pa, a, b)
    _replace(tree, pb, b, a)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _within(tree: Ints, node: int, stack: Ints) -> int:
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


@njit(cache=True, nogil=True)
def mirror(tree: Ints, node: int, axis: int, stack: Ints) -> None:
    """Exchange the parts of every cut of kind ``axis`` within ``node``, and low with high across it."""
    for at in range(_within(tree, node, stack)):
        here = stack[at]
        if tree[LEFT, here] < 0:
            continue
        a, b = tree[LEFT, here], tree[RIGHT, here]
        if tree[CUT, here] == axis:
            tree[LEFT, here], tree[RIGHT, here] = b, a
        else:
            tree[ALIGN, a] = 2 - tree[ALIGN, a]
            tree[ALIGN, b] = 2 - tree[ALIGN, b]


@njit(cache=True, nogil=True)
def _want(state: State, node: int, axis: int) -> None:
    """Make a node's curve along ``axis`` known."""
    version = state.work[VERSION, node]
    known = state.work[KNOWN + version, node]
    if not known & (1 << axis):
        invert(state.curves[version, 1 - axis, node], state.curves[version, axis, node])
        state.work[KNOWN + version, node] = 3


@njit(cache=True, nogil=True)
def _changed(state: State, node: int, move: int) -> None:
    work = state.work
    work[VERSION, node] = 1 - work[VERSION, node]
    work[STAMP, node] = move
    work[CHANGED, work[CHANGED, -1]] = node
    work[CHANGED, -1] += 1


@njit(cache=True, nogil=True)
def _refresh(state: State, node: int, move: int) -> bool:
    """Compute a cut's curve anew; whether it may differ from that before the move."""
    work, tree = state.work, state.tree
    old = work[VERSION, node]
    again = work[STAMP, node] == move
    new = old if again else 1 - old
    a, b, axis = tree[LEFT, node], tree[RIGHT, node], tree[CUT, node]
    for part in (a, b):
        _want(state, part, axis)
    ours = state.curves[new, axis, node]
    add(state.curves[work[VERSION, a], axis, a], state.curves[work[VERSION, b], axis, b], ours)
    if not again:
        if work[KNOWN + old, node] & (1 << axis):
            before = state.curves[old, axis, node]
            same = True
            for h in range(len(ours)):
                if ours[h] != before[h]:
                    same = False
                    break
            if same:
                return False
        _changed(state, node, move)
    work[KNOWN + new, node] = 1 << axis
    return True


@njit(cache=True, nogil=True)
def _paths(tree: Ints, plan: Ints, work: Ints, count: int) -> tuple[int, int]:
    """Add the nodes on the ways from the plan's first and second node to the root to the stack, children first.

    Each is there once.

    ``count`` are there already. Returns how many are then, and how many at the least must be computed anew.
    """
    stack, mark = work[STACK], work[MARK]
    needed = count
    node = plan[FIRST]
    while node >= 0:
        mark[node] = 1
        node = tree[PARENT, node]
    node = plan[SECOND]
    while node >= 0 and mark[node] == 0:
        stack[count] = node
        count += 1
        node = tree[PARENT, node]
    meeting = node
    node = plan[FIRST]
    while node >= 0:
        mark[node] = 0
        stack[count] = node
        count += 1
        if node == meeting or node == plan[FIRST] or (plan[FORCED] >= 0 and node == tree[PARENT, plan[FORCED]]):
            needed = count
        node = tree[PARENT, node]
    return count, needed


@njit(cache=True, nogil=True)
def refresh(state: State, floor: Floor, move: int) -> None:
    """Compute anew what the plan names; with the root as a whole the kernels' curves are loaded as well.

    On the ways up it stops where a curve stays the same, above the meeting of both ways and the forced node.
    """
    tree, plan, work = state.tree, state.plan, state.work
    count = 0
    if plan[WHOLE] >= 0:
        count = _within(tree, plan[WHOLE], work[STACK])
        for at in range(count // 2):
            work[STACK, at], work[STACK, count - 1 - at] = work[STACK, count - 1 - at], work[STACK, at]
        if plan[WHOLE] == tree[ROOT, -1]:
            for kernel in range(len(floor.types)):
                if work[STAMP, kernel] != move:
                    _changed(state, kernel, move)
                version = work[VERSION, kernel]
                for axis in range(2):
                    copy(floor.table[tree[TIME, -1], floor.types[kernel]], state.curves[version, axis, kernel])
                work[KNOWN + version, kernel] = 3
    count, needed = _paths(tree, plan, work, count)
    for at in range(count):
        node = work[STACK, at]
        if tree[LEFT, node] >= 0 and not _refresh(state, node, move) and at + 1 >= needed:
            break


@njit(cache=True, nogil=True)
def _least(curve: SideArray, bound: int) -> int:
    """The least index at which ``curve`` is ``bound`` or less; its length where there is none."""
    low, high = 0, len(curve)
    while low < high:
        middle = (low + high) // 2
        if curve[middle] <= bound:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _side(state: State, node: int, axis: int, length: int) -> int:
    """The least width within height ``length`` (axis 0), or the least height within width ``length`` (axis 1)."""
    version = state.work[VERSION, node]
    if state.work[KNOWN + version, node] & (1 << axis):
        return int(state.curves[version, axis, node, length])
    return _least(state.curves[version, 1 - axis, node], length)


@njit(cache=True, nogil=True)
def lay_out(state: State, height: int) -> None:
    """Boxes of all nodes within ``height``, each as narrow (or low) as its parent's cut allows, then tight."""
    tree, work = state.tree, state.work
    root = tree[ROOT, -1]
    work[X, root], work[Y, root], work[W, root] = 0, 0, _side(state, root, 0, height)
    work[H, root] = _side(state, root, 1, work[W, root])
    work[STACK, 0] = root
    count = 1
    while count > 0:
        count -= 1
        node = work[STACK, count]
        a, b, axis = tree[LEFT, node], tree[RIGHT, node], tree[CUT, node]
        if a < 0:
            continue
        # along the cut's axis the parts lie one after the other; across it each has the same room
        along, across = (W, H) if axis == 0 else (H, W)
        begin, base = (X, Y) if axis == 0 else (Y, X)
        room, start = work[across, node], work[begin, node]
        for part in (a, b):
            long = _side(state, part, axis, room)
            wide = _side(state, part, 1 - axis, long)
            work[along, part], work[across, part] = long, wide
            work[begin, part] = start
            work[base, part] = work[base, node] + (room - wide) * tree[ALIGN, part] // 2
            start += long
        work[STACK, count], work[STACK, count + 1] = a, b
        count += 2


@njit(cache=True, nogil=True)
def wire_of(work: Ints, edges: Ints) -> int:
    """The wire length of the kernels' boxes, half tiles."""
    wire = 0
    for e in range(len(edges)):
        a, b = edges[e, 0], edges[e, 1]
        wire += abs(2 * (work[X, a] - work[X, b]) + work[W, a] - work[W, b])
        wire += abs(2 * (work[Y, a] - work[Y, b]) + work[H, a] - work[H, b])
    return wire


@njit(cache=True, nogil=True)
def value(state: State, floor: Floor) -> int:
    """The score (ticks) of the tree at its time; WORST where it doesn't fit. Sets the height of the whole."""
    tree, numbers = state.tree, floor.numbers
    root, height = tree[ROOT, -1], numbers[HIGH]
    low = _side(state, root, 1, numbers[WIDE])
    if low > height:
        return WORST
    wire = WORST
    for tall in (height, low):
        lay_out(state, tall)
        now = wire_of(state.work, floor.edges)
        if now < wire:
            wire = now
            tree[TALL, -1] = tall
        if low == height:
            break
    return numbers[PER_TIME] * floor.taus[tree[TIME, -1]] + numbers[PER_WIRE] * wire


@njit(cache=True, nogil=True)
def _neighbour(state: State, floor: Floor, a: int) -> int:
    """A node near a graph neighbour of kernel ``a``: the neighbour or a rectangle round it."""
    if floor.start[a + 1] == floor.start[a]:
        return below(state.random, 2 * len(floor.types) - 1)
    b = floor.near[floor.start[a] + below(state.random, floor.start[a + 1] - floor.start[a])]
    while state.tree[PARENT, b] >= 0 and uniform(state.random) < 0.4:
        b = state.tree[PARENT, b]
    return b


@njit(cache=True, nogil=True)
def _move_part(state: State, floor: Floor, grafted: bool) -> bool:
    """Move a part of the tree elsewhere or exchange two, often a kernel to its neighbour in the graph."""
    tree, random, plan = state.tree, state.random, state.plan
    n = len(floor.types)
    leaf = uniform(random) < 0.6
    a = below(random, n if leaf else 2 * n - 1)
    b = _neighbour(state, floor, a) if leaf and uniform(random) < 0.5 else below(random, 2 * n - 1)
    p = tree[PARENT, a]
    if p < 0 or _inside(tree, b, a) or b == p:
        return False
    if grafted or _inside(tree, a, b):
        plan[FIRST], plan[SECOND], plan[FORCED] = p, tree[PARENT, p], p
        graft(tree, a, b, below(random, 2), uniform(random) < 0.5)
    else:
        swap(tree, a, b)
        if a >= n or b >= n or floor.types[a] != floor.types[b]:
            plan[FIRST], plan[SECOND] = tree[PARENT, a], tree[PARENT, b]
    return True


@njit(cache=True, nogil=True)
def propose(state: State, floor: Floor) -> bool:
    """Change the tree by one random move and plan what to compute anew; False where nothing changed."""
    tree, random, plan = state.tree, state.random, state.plan
    n = len(floor.types)
    r = uniform(random)
    if r < 0.55:
        return _move_part(state, floor, r < 0.3)
    node = n + below(random, n - 1)
    if r < 0.65:
        tree[CUT, node] = 1 - tree[CUT, node]
        plan[FIRST] = node
        r = 0.0 if uniform(random) < 0.5 else 1.0
    if r < 0.65 or 0.8 <= r < 0.88:
        tree[LEFT, node], tree[RIGHT, node] = tree[RIGHT, node], tree[LEFT, node]
    elif r < 0.8:
        mirror(tree, node, below(random, 2), state.work[STACK])
    elif r < 0.96:
        kernel = below(random, 2 * n - 1)
        before = tree[ALIGN, kernel]
        tree[ALIGN, kernel] = below(random, 3)
        return bool(tree[ALIGN, kernel] != before)
    elif plan[FIRST] < 0:  # exchange the axes
        stack = state.work[STACK]
        for at in range(_within(tree, node, stack)):
            if tree[LEFT, stack[at]] >= 0:
                tree[CUT, stack[at]] = 1 - tree[CUT, stack[at]]
        plan[WHOLE], plan[FIRST] = node, tree[PARENT, node]
    return True


@njit(cache=True, nogil=True)
def restart(state: State, floor: Floor) -> None:
    """Compute everything of the tree as it stands."""
    state.work[:] = 0
    state.work[STAMP] = -1
    state.plan[:] = -1
    state.plan[WHOLE] = state.tree[ROOT, -1]
    refresh(state, floor, 0)
    state.score[0] = value(state, floor)
    if state.score[0] < state.score[1]:
        state.score[1] = state.score[0]
        _copy_tree(state.tree, state.best)


@njit(cache=True, nogil=True)
def _ease(state: State, times: int) -> None:
    """Change the target time by some steps of the grid, few more often than many."""
    tree, random = state.tree, state.random
    step = 1
    while step < 32 and uniform(random) < 0.5:
        step *= 2
    time = tree[TIME, -1] + (step if uniform(random) < 0.5 else -step)
    tree[TIME, -1] = min(max(time, 0), times - 1)


@njit(cache=True, nogil=True)
def anneal(state: State, floor: Floor, moves: int, hot: float, cold: float, ease: float) -> int:
    """``moves`` moves while the temperature (ticks) falls from ``hot`` to ``cold``; how many were accepted.

    A share ``ease`` of the moves changes the target time, half of these nothing else.
    """
    tree, random, work, plan = state.tree, state.random, state.work, state.plan
    accepted = 0
    ratio = np.log(cold / hot) / moves
    _copy_tree(tree, state.saved)
    work[STAMP] = -1
    for move in range(1, moves + 1):
        work[CHANGED, -1] = 0
        plan[:] = -1
        timed = uniform(random) < ease
        if timed:
            _ease(state, len(floor.taus))
        moved = (not timed or uniform(random) < 0.5) and propose(state, floor)
        if not timed and not moved:
            continue
        if timed:
            plan[:] = -1
            plan[WHOLE] = tree[ROOT, -1]
        if plan[WHOLE] >= 0 or plan[FIRST] >= 0:
            refresh(state, floor, move)
        score = value(state, floor)
        worse = score - state.score[0]
        if worse <= 0 or (score < WORST and uniform(random) < np.exp(-worse / (hot * np.exp(ratio * move)))):
            state.score[0] = score
            _copy_tree(tree, state.saved)
            accepted += 1
            if score < state.score[1]:
                state.score[1] = score
                _copy_tree(tree, state.best)
        else:
            for at in range(work[CHANGED, -1]):
                work[VERSION, work[CHANGED, at]] = 1 - work[VERSION, work[CHANGED, at]]
            _copy_tree(state.saved, tree)
    return accepted
