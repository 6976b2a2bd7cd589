"""The compiled search of SAMPLE and FIX: draw, propagate, take back, begin again (numba).

:mod:`chipmap.heuristics.ring.sampling.sample_fix` has the interface. Sample i of a batch has its own random
state, made from (seed, i).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chipmap.heuristics.ring.sampling.propagate_kernel import place, propagate
from chipmap.heuristics.ring.sampling.propagate_state import Net, PropagationState, undo
from chipmap.kernels import njit
from chipmap.kernels.annealing import next_bits, uniform

#: What a search ends with. FELL_BACK: found under the ``path`` rule, after the full rule's budgets were spent.
NONE_LEFT, FOUND, FELL_BACK, GAVE_UP = 0, 1, 2, -1
#: The choice at a level where the operation had one chip left.
FORCED = -1


class Levels(NamedTuple):
    """Decisions: per level the mark on the trail, the operation ``who`` and the choice made for it, what was ``tried``
    [levels, C + 1], and whether a dead end has ``changed`` the operation; the interval ``box`` [levels, 2] that the
    operation had before the choice.
    """

    mark: Any
    who: Any
    choice: Any
    tried: Any
    changed: Any
    box: Any


class Rules(NamedTuple):
    """The constraints ``net`` and the intervals ``root`` [n, 2] that they leave (of length 0: not to be tried)."""

    net: Net
    root: Any


class Task(NamedTuple):
    """What is asked: to visit the operations in this ``order``, or ``shuffled`` anew for each search.

    SAMPLE draws by ``weights`` [n, C], or [1, C] for all. FIX (``fixing``) first wants the chips ``wishes`` [k or 1, n]
    of sample k. A search ends after the failures that its entry of ``budgets`` allows, and the next begins.
    """

    order: Any
    shuffled: bool
    weights: Any
    wishes: Any
    fixing: bool
    budgets: Any


@njit(part=True)
def _shuffle(order: Any, random: Any) -> None:
    """A random order of 0 … n - 1."""
    for i in range(len(order)):
        j = int(uniform(random) * (i + 1))
        order[i] = order[j]
        order[j] = i


@njit(part=True)
def _draw(net: Net, state: PropagationState, u: int, weights: Any, tried: Any, random: Any) -> int:
    """A chip from the domain of u less what was tried, by ``weights`` [C] (uniform if they are all 0); -1 if none."""
    allowed, lo, hi = net.allowed[0, u], state.box[u, 0], state.box[u, 1]
    total, left = 0.0, 0
    for c in range(lo, hi + 1):
        if not tried[c] and allowed[c] == c:
            left += 1
            total += weights[c]
    if left == 0:
        return -1
    point = uniform(random) * (total if total > 0.0 else left)
    last = -1
    for c in range(lo, hi + 1):
        if not tried[c] and allowed[c] == c:
            weight = weights[c] if total > 0.0 else 1.0
            if weight > 0.0:
                last = c
                point -= weight
                if point < 0.0:
                    return c
    return last


@njit(part=True)
def _choose(
    net: Net, state: PropagationState, u: int, wish: int, first_pass: bool, weights: Any, tried: Any, random: Any
) -> int:
    """The next choice for u: in FIX's first pass its wish, then to leave it open (``chips``); else a draw; -1: none."""
    if not first_pass:
        return _draw(net, state, u, weights, tried, random)
    chips = net.allowed.shape[2]
    if state.box[u, 0] <= wish <= state.box[u, 1] and net.allowed[0, u, wish] == wish and not tried[wish]:
        return wish
    return chips if not tried[chips] else -1


@njit(part=True)
def search(net: Net, state: PropagationState, levels: Levels, task: Task, wish: Any, limit: int, random: Any) -> int:
    """Algorithms 1 and 2 from the state's intervals: FOUND, NONE_LEFT or GAVE_UP (more than ``limit`` failures)."""
    order, weights, fixing = task.order, task.weights, task.fixing
    n, chips = len(order), net.allowed.shape[2]
    box, trail, who = state.box, state.trail, levels.who
    end = 2 * n if fixing else n
    for i in range(end):
        who[i] = order[i % n]
    level, failures = 0, 0
    _enter(levels, level)
    while level < end:
        u = who[level]
        levels.mark[level] = trail[0, 0]
        levels.box[level, 0], levels.box[level, 1] = box[u, 0], box[u, 1]
        if box[u, 0] == box[u, 1]:
            levels.choice[level] = FORCED
            c = chips
        else:
            row = u if len(weights) == n else 0
            c = _choose(net, state, u, wish[u], fixing and level < n, weights[row], levels.tried[level], random)
            levels.choice[level] = c
        if c == chips or (c >= 0 and place(net, state, u, c)):
            level += 1
            if level < end:
                _enter(levels, level)
            continue
        failures += 1
        if failures > limit:
            return GAVE_UP
        if c < 0:
            stuck = level
            level -= 1
            while level >= 0 and levels.choice[level] == FORCED:
                level -= 1
            if level < 0:
                return NONE_LEFT
            undo(state, levels.mark[level])
            if not levels.changed[level] and (level >= n or not fixing):
                _enter(levels, level)
                levels.changed[level] = True
                who[level], who[stuck] = who[stuck], who[level]
                continue
        undo(state, levels.mark[level])
        levels.tried[level, levels.choice[level]] = True
    return FOUND


@njit(part=True)
def _enter(levels: Levels, level: int) -> None:
    """Nothing has been tried on this level."""
    levels.tried[level] = False
    levels.changed[level] = False


@njit(part=True)
def _one(rules: Rules, state: PropagationState, levels: Levels, task: Task, wish: Any, random: Any) -> int:
    """Searches with growing budgets, each from the root and (if ``shuffled``) in a new order."""
    status = GAVE_UP
    for limit in task.budgets:
        if status != GAVE_UP:
            break
        for v in range(len(rules.root)):
            state.box[v, 0], state.box[v, 1] = rules.root[v, 0], rules.root[v, 1]
        state.trail[0, 0] = 0
        if task.shuffled:
            _shuffle(task.order, random)
        status = search(rules.net, state, levels, task, wish, limit, random)
    return status


@njit(cache=True, long=True)
def many(
    first: int, seed: int, rules: Rules, spare: Rules, state: PropagationState, levels: Levels, task: Task, out: Any
) -> Any:
    """Samples ``first`` … into ``out`` [k, n]; the status [k] of each. ``spare`` rules come after ``rules``.

    For no samples it tightens the state by what waits in its queue: the status [1] is FOUND or NONE_LEFT. (One function
    for both, as the propagator takes seconds to compile.)
    """
    if not len(out):
        return np.full(1, FOUND if propagate(rules.net, state) else NONE_LEFT)
    random = np.empty(1, dtype=np.uint64)
    status = np.empty(len(out), dtype=np.int64)
    for i in range(len(out)):
        random[0] = np.uint64(seed)
        random[0] = next_bits(random) ^ np.uint64(first + i)
        next_bits(random)
        wish = task.wishes[i if len(task.wishes) > 1 else 0]
        status[i] = _one(rules, state, levels, task, wish, random)
        if status[i] == GAVE_UP and len(spare.root) == len(task.order):
            done = _one(spare, state, levels, task, wish, random)
            status[i] = FELL_BACK if done == FOUND else GAVE_UP
        if status[i] >= FOUND:
            for v in range(len(state.box)):
                out[i, v] = state.box[v, 0]
    return status


def tighten(net: Net, state: PropagationState) -> bool:
    """Tighten the state's intervals, with a look at each operation; False if no valid mapping is left."""
    n = len(state.box)
    state.box[:, 2] = 1
    state.queue[:2] = 0, n
    state.queue[2:] = np.arange(n)
    none, rules = np.zeros(0, dtype=np.int64), Rules(net, np.zeros((0, 2), dtype=np.int64))
    levels = Levels(
        none,
        none,
        none,
        np.zeros((0, 0), dtype=np.bool_),
        np.zeros(0, dtype=np.bool_),
        np.zeros((0, 2), dtype=np.int64),
    )
    rows = np.zeros((0, 0), dtype=np.int64)
    task = Task(none, False, np.zeros((0, 0)), rows, False, none)
    return bool(many(0, 0, rules, rules, state, levels, task, rows)[0] == FOUND)
