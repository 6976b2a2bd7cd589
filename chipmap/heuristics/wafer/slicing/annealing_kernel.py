"""The compiled annealing of slicing trees (numba, cached, no fastmath).

Only the curves on the way from the changed nodes to the root are computed anew, and of a node's two curves (least width
per height, least height per width) only those asked for; a rejected move turns back to the curves it left. Long
functions are called from one place each, as all of them are inlined there.
"""

from __future__ import annotations

import numpy as np

from chipmap.heuristics.wafer.slicing import moves_kernel as mk
from chipmap.heuristics.wafer.slicing.kernel import SideArray, add, copy, invert
from chipmap.heuristics.wafer.slicing.moves_kernel import Floor, Ints, SlicingTreeState
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature, uniform


@njit(part=True)
def _want(state: SlicingTreeState, node: int, axis: int) -> None:
    """Make a node's curve along ``axis`` known."""
    version = state.work[mk.VERSION, node]
    known = state.work[mk.KNOWN + version, node]
    if not known & (1 << axis):
        invert(state.curves[version, 1 - axis, node], state.curves[version, axis, node])
        state.work[mk.KNOWN + version, node] = 3


@njit(part=True)
def _changed(state: SlicingTreeState, node: int, move: int) -> None:
    work = state.work
    work[mk.VERSION, node] = 1 - work[mk.VERSION, node]
    work[mk.STAMP, node] = move
    work[mk.CHANGED, work[mk.CHANGED, -1]] = node
    work[mk.CHANGED, -1] += 1


@njit(part=True)
def _refresh(state: SlicingTreeState, node: int, move: int) -> bool:
    """Compute a cut's curve anew; whether it may differ from that before the move."""
    work, tree = state.work, state.tree
    old = work[mk.VERSION, node]
    again = work[mk.STAMP, node] == move
    new = old if again else 1 - old
    a, b, axis = tree[mk.LEFT, node], tree[mk.RIGHT, node], tree[mk.CUT, node]
    for part in (a, b):
        _want(state, part, axis)
    ours = state.curves[new, axis, node]
    add(state.curves[work[mk.VERSION, a], axis, a], state.curves[work[mk.VERSION, b], axis, b], ours)
    if not again:
        if work[mk.KNOWN + old, node] & (1 << axis):
            before = state.curves[old, axis, node]
            same = True
            for h in range(len(ours)):
                if ours[h] != before[h]:
                    same = False
                    break
            if same:
                return False
        _changed(state, node, move)
    work[mk.KNOWN + new, node] = 1 << axis
    return True


@njit(part=True)
def _paths(tree: Ints, plan: Ints, work: Ints, count: int) -> tuple[int, int]:
    """Add the nodes on the ways from the plan's first and second node to the root to the stack, children first.

    Each is there once.

    ``count`` are there already. Returns how many are then, and how many at the least must be computed anew.
    """
    stack, mark = work[mk.STACK], work[mk.MARK]
    needed = count
    node = plan[mk.FIRST]
    while node >= 0:
        mark[node] = 1
        node = tree[mk.PARENT, node]
    node = plan[mk.SECOND]
    while node >= 0 and mark[node] == 0:
        stack[count] = node
        count += 1
        node = tree[mk.PARENT, node]
    meeting = node
    node = plan[mk.FIRST]
    while node >= 0:
        mark[node] = 0
        stack[count] = node
        count += 1
        if (
            node == meeting
            or node == plan[mk.FIRST]
            or (plan[mk.FORCED] >= 0 and node == tree[mk.PARENT, plan[mk.FORCED]])
        ):
            needed = count
        node = tree[mk.PARENT, node]
    return count, needed


@njit(part=True)
def refresh(state: SlicingTreeState, floor: Floor, move: int) -> None:
    """Compute anew what the plan names; with the root as a whole the kernels' curves are loaded as well.

    On the ways up it stops where a curve stays the same, above the meeting of both ways and the forced node.
    """
    tree, plan, work = state.tree, state.plan, state.work
    count = 0
    if plan[mk.WHOLE] >= 0:
        count = mk.within(tree, plan[mk.WHOLE], work[mk.STACK])
        for at in range(count // 2):
            work[mk.STACK, at], work[mk.STACK, count - 1 - at] = work[mk.STACK, count - 1 - at], work[mk.STACK, at]
        if plan[mk.WHOLE] == tree[mk.ROOT, -1]:
            for kernel in range(len(floor.types)):
                if work[mk.STAMP, kernel] != move:
                    _changed(state, kernel, move)
                version = work[mk.VERSION, kernel]
                for axis in range(2):
                    copy(floor.table[tree[mk.TIME, -1], floor.types[kernel]], state.curves[version, axis, kernel])
                work[mk.KNOWN + version, kernel] = 3
    count, needed = _paths(tree, plan, work, count)
    for at in range(count):
        node = work[mk.STACK, at]
        if tree[mk.LEFT, node] >= 0 and not _refresh(state, node, move) and at + 1 >= needed:
            break


@njit(part=True)
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


@njit(part=True)
def _side(state: SlicingTreeState, node: int, axis: int, length: int) -> int:
    """The least width within height ``length`` (axis 0), or the least height within width ``length`` (axis 1)."""
    version = state.work[mk.VERSION, node]
    if state.work[mk.KNOWN + version, node] & (1 << axis):
        # in a floorplan that is too high a part may be so as well
        return int(state.curves[version, axis, node, min(length, state.curves.shape[3] - 1)])
    return _least(state.curves[version, 1 - axis, node], length)


@njit(cache=True, nogil=True)
def lay_out(state: SlicingTreeState, width: int, height: int) -> None:
    """Boxes of all nodes within ``height``, each as narrow (or low) as its parent's cut allows, then tight.

    Beyond the heights that curves cover the whole is ``width`` wide.
    """
    tree, work = state.tree, state.work
    root = tree[mk.ROOT, -1]
    covered = height < state.curves.shape[3]
    work[mk.X, root], work[mk.Y, root], work[mk.W, root] = 0, 0, _side(state, root, 0, height) if covered else width
    work[mk.H, root] = _side(state, root, 1, work[mk.W, root])
    work[mk.STACK, 0] = root
    count = 1
    while count > 0:
        count -= 1
        node = work[mk.STACK, count]
        a, b, axis = tree[mk.LEFT, node], tree[mk.RIGHT, node], tree[mk.CUT, node]
        if a < 0:
            continue
        # along the cut's axis the parts lie one after the other; across it each has the same room
        along, across = (mk.W, mk.H) if axis == 0 else (mk.H, mk.W)
        begin, base = (mk.X, mk.Y) if axis == 0 else (mk.Y, mk.X)
        room, start = work[across, node], work[begin, node]
        for part in (a, b):
            long = _side(state, part, axis, room)
            wide = _side(state, part, 1 - axis, long)
            work[along, part], work[across, part] = long, wide
            work[begin, part] = start
            work[base, part] = work[base, node] + (room - wide) * tree[mk.ALIGN, part] // 2
            start += long
        work[mk.STACK, count], work[mk.STACK, count + 1] = a, b
        count += 2


@njit(part=True)
def wire_of(work: Ints, edges: Ints) -> int:
    """The wire length of the kernels' boxes, half tiles."""
    wire = 0
    for e in range(len(edges)):
        a, b = edges[e, 0], edges[e, 1]
        wire += abs(2 * (work[mk.X, a] - work[mk.X, b]) + work[mk.W, a] - work[mk.W, b])
        wire += abs(2 * (work[mk.Y, a] - work[mk.Y, b]) + work[mk.H, a] - work[mk.H, b])
    return wire


@njit(part=True)
def adapters_of(work: Ints, time: int, floor: Floor) -> int:
    """The adapters of the kernels' boxes with the options behind them."""
    count = 0
    for e in range(len(floor.edges)):
        a, b = floor.edges[e, 0], floor.edges[e, 1]
        p = floor.choice[time, floor.types[a], work[mk.H, a]]
        q = floor.choice[time, floor.types[b], work[mk.H, b]]
        for column in range(1, 4):
            if floor.arguments[p, column] != floor.arguments[q, column]:
                count += 1
    return count


@njit(part=True)
def value(state: SlicingTreeState, floor: Floor) -> int:
    """The score (ticks) of the tree at its time, with a penalty per tile that it is too high. Sets its height.

    WORST where it doesn't fit and there is no penalty, is too high by far, or isn't stacked (the curves end then).
    """
    tree, numbers = state.tree, floor.numbers
    root, height = tree[mk.ROOT, -1], numbers[mk.HIGH]
    low = _side(state, root, 1, numbers[mk.WIDE])
    over = max(0, low - height)
    if over > 0 and (numbers[mk.PER_OVER] == 0 or tree[mk.CUT, root] == 0 or over > height // 8):
        return mk.WORST
    best = mk.WORST
    for tall in (max(low, height), low):
        lay_out(state, numbers[mk.WIDE], tall)
        now = numbers[mk.PER_WIRE] * wire_of(state.work, floor.edges)
        if numbers[mk.PER_ADAPTER] > 0:
            now += numbers[mk.PER_ADAPTER] * adapters_of(state.work, tree[mk.TIME, -1], floor)
        if now < best:
            best = now
            tree[mk.TALL, -1] = tall
        if low >= height:
            break
    return numbers[mk.PER_TIME] * floor.taus[tree[mk.TIME, -1]] + best + numbers[mk.PER_OVER] * over


@njit(cache=True, nogil=True)
def restart(state: SlicingTreeState, floor: Floor) -> None:
    """Compute everything of the tree as it stands."""
    state.work[:] = 0
    state.work[mk.STAMP] = -1
    state.plan[:] = -1
    state.plan[mk.WHOLE] = state.tree[mk.ROOT, -1]
    refresh(state, floor, state.work[mk.CHANGED, -1])
    state.score[0] = value(state, floor)
    if state.score[0] < state.score[1] and state.tree[mk.TALL, -1] <= floor.numbers[mk.HIGH]:
        state.score[1] = state.score[0]
        mk.copy_tree(state.tree, state.best)


@njit(cache=True, nogil=True, long=True)
def anneal(state: SlicingTreeState, floor: Floor, moves: int, hot: float, cold: float, ease: float) -> int:
    """``moves`` moves while the temperature (ticks) falls from ``hot`` to ``cold``; how many were accepted.

    A share ``ease`` of the moves changes the target time, half of these nothing else.
    """
    tree, random, work, plan = state.tree, state.random, state.work, state.plan
    accepted = 0
    mk.copy_tree(tree, state.saved)
    work[mk.STAMP] = -1
    for move in range(1, moves + 1):
        work[mk.CHANGED, -1] = 0
        plan[:] = -1
        timed = uniform(random) < ease
        if timed:
            mk.step_time(state, len(floor.taus))
        moved = (not timed or uniform(random) < 0.5) and mk.propose(state, floor)
        if not timed and not moved:
            continue
        if timed:
            plan[:] = -1
            plan[mk.WHOLE] = tree[mk.ROOT, -1]
        if plan[mk.WHOLE] >= 0 or plan[mk.FIRST] >= 0:
            refresh(state, floor, move)
        score = value(state, floor)
        worse = score - state.score[0]
        if worse <= 0 or (score < mk.WORST and uniform(random) < np.exp(-worse / temperature(hot, cold, move / moves))):
            state.score[0] = score
            mk.copy_tree(tree, state.saved)
            accepted += 1
            if score < state.score[1] and tree[mk.TALL, -1] <= floor.numbers[mk.HIGH]:
                state.score[1] = score
                mk.copy_tree(tree, state.best)
        else:
            for at in range(work[mk.CHANGED, -1]):
                work[mk.VERSION, work[mk.CHANGED, at]] = 1 - work[mk.VERSION, work[mk.CHANGED, at]]
            mk.copy_tree(state.saved, tree)
    return accepted
