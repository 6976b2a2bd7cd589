"""Annealing over (device, key) of each operation, steered by the critical chain.

A move picks an operation of the chain that makes the step as long as it is. Where a transfer delays it, the reader's
unit goes to the producer's device or the reverse. Where a busy device delays it, it gets a key that comes before, or
one of the two units goes elsewhere. The limit that a candidate must stay below is drawn first. A move that would delay
something by more (:mod:`~chipmap.heuristics.placement.search.slack`) is left out: most are. The others are simulated
until they are above the limit. While memory overflows, fewer bytes too many count before time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.search.slack import Slack, delay, fill, passed
from chipmap.heuristics.placement.search.units import Units
from chipmap.heuristics.placement.simulation.checkpoints import first_change
from chipmap.heuristics.placement.simulation.memory import Bytes, excess_of
from chipmap.heuristics.placement.simulation.simulator import NEVER, narrow, take, trial
from chipmap.heuristics.placement.simulation.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature

#: Shares of moves: of any unit, of a key alone where a busy device delays the chain, the same where all moves are
#: simulated, and of keys that pass many others.
ANY, KEY, KEY_OF_ALL, FAR = 0.2, 0.05, 0.5, 0.5
#: Moves that are judged for each one that may be simulated.
JUDGED = 16


#: Why an operation of the chain doesn't start earlier: its inputs made there (or nothing), its device, a transfer.
FREE, BUSY, SENT = 0, 1, 2


class Chain(NamedTuple):
    """The critical chain: operations ``stop``, ``why`` each doesn't start earlier, and the ``other`` that causes it."""

    stop: IntArray
    why: IntArray
    other: IntArray


class AnnealingState(NamedTuple):
    """``device`` and ``key`` [N] now and at the best so far; ``value``: now (T, bytes too many), best (T, bytes)."""

    device: IntArray
    key: IntArray
    best_device: IntArray
    best_key: IntArray
    value: IntArray


def annealing_state(device: IntArray, key: IntArray, step: int, over: int) -> AnnealingState:
    """The state at a placement with that step time, with ``over`` bytes above the memory."""
    value = np.array([step, over, step, over], dtype=np.int64)
    return AnnealingState(device.copy(), key.copy(), device.copy(), key.copy(), value)


@njit(cache=True, nogil=True, long=True)
def seed_with(seed: int) -> None:
    """Seed the generator that compiled code draws from."""
    np.random.seed(seed)


@njit(part=True, _nrt=False)
def _last_input(t: Tables, device: IntArray, w: Work, v: int) -> int:
    """The storage that operation ``v`` waited for longest."""
    last, when = -1, -1
    for i in range(t.read_at[v], t.read_at[v + 1]):
        s, d = t.read[i], device[v]
        u = t.producer[s]
        at = w.start[u] + t.time[u, device[u]]
        if device[u] != d:
            at = w.sent[s * len(t.gap) + d] + t.send[s, t.kind[device[u] * len(t.gap) + d]]
        if at > when:
            last, when = s, at
    return last


@njit(part=True, _nrt=False)
def critical(t: Tables, device: IntArray, w: Work, chain: Chain) -> int:
    """Fill ``chain`` from the operation that ends last, back to the first; the number of its operations."""
    devices, v = len(t.gap), 0
    for u in range(len(device)):
        if w.start[u] + t.time[u, device[u]] > w.start[v] + t.time[v, device[v]]:
            v = u
    count = 0
    while v >= 0 and count < len(device):
        chain.stop[count], chain.why[count], chain.other[count] = v, FREE, -1
        if w.start[v] > w.ready[v] and w.before[v] >= 0:
            chain.why[count], chain.other[count] = BUSY, w.before[v]
        elif t.reads[v] > 0:
            s, d = _last_input(t, device, w, v), device[v]
            u = t.producer[s]
            chain.why[count] = SENT if device[u] != d else FREE
            chain.other[count] = u
            # a transfer that waited for its channel: what held that is on the chain
            while device[u] != d and w.sent[s * devices + d] > w.start[u] + t.time[u, device[u]]:
                code = w.behind[s * devices + d]
                if code < 0:
                    break
                s, d = code // devices, code % devices
                u = t.producer[s]
            v = u
            count += 1
            continue
        v = chain.other[count]
        count += 1
    return count


@njit(part=True, _nrt=False)
def _move(units: Units, allowed: NDArray[np.bool_], device: IntArray, v: int, to: int, moved: IntArray) -> int:
    """Put a unit of ``v`` on device ``to``; its members that moved are in ``moved`` (-1: it isn't allowed there)."""
    level = np.random.randint(len(units.at))
    one = units.unit[level, v]
    count = 0
    for i in range(units.at[level, one], units.at[level, one + 1]):
        u = units.members[level, i]
        if device[u] != to:
            if not allowed[u, to]:
                return -1
            moved[count] = u
            count += 1
    return count


@njit(part=True, _nrt=False)
def _propose(
    t: Tables,
    units: Units,
    allowed: NDArray[np.bool_],
    s: AnnealingState,
    chain: Chain,
    length: int,
    share: float,
    moved: IntArray,
) -> tuple[int, int, int]:
    """(number of operations in ``moved``, their new device, the place in the chain of one whose key changes or -1).

    ``share``: of keys alone where a busy device delays the chain.
    """
    devices = len(t.gap)
    other = (np.random.randint(max(1, devices - 1)) + 1) % devices
    if length == 0 or s.value[1] > 0 or np.random.random() < ANY:  # what is too much anywhere may lie off the chain
        v = np.random.randint(len(s.device))
        to = (s.device[v] + other) % devices
        return _move(units, allowed, s.device, v, to, moved), to, -1
    k = np.random.randint(length)
    v, partner = chain.stop[k], chain.other[k]
    if chain.why[k] == BUSY:
        if devices == 1 or np.random.random() < share:
            return 0, 0, k
        one = v if np.random.random() < 0.5 else partner
        to = (s.device[one] + other) % devices
        return _move(units, allowed, s.device, one, to, moved), to, -1
    if chain.why[k] == SENT:
        one, at = (v, partner) if np.random.random() < 0.5 else (partner, v)
        return _move(units, allowed, s.device, one, s.device[at], moved), s.device[at], -1
    to = (s.device[v] + other) % devices
    return _move(units, allowed, s.device, v, to, moved), to, -1


@njit(part=True, _nrt=False)
def _keep_best(s: AnnealingState) -> None:
    """The present schedule is the best one if it has fewer bytes too many, or as many and a shorter step."""
    step, over = s.value[0], s.value[1]
    if over < s.value[3] or (over == s.value[3] and step < s.value[2]):
        s.value[2], s.value[3] = step, over
        for v in range(len(s.device)):
            s.best_device[v], s.best_key[v] = s.device[v], s.key[v]


@njit(part=True, _nrt=False)
def _promising(
    t: Tables,
    s: AnnealingState,
    w: Work,
    k: Slack,
    chain: Chain,
    moved: IntArray,
    move: tuple[int, int, int],
    most: int,
) -> int:
    """The operation before which the one whose key changes should go (0 where units move); -1 if nothing is to be
    gained: the move would delay something by more than ``most`` ns."""
    size, to, place = move
    if len(k.late) == 0:
        return chain.other[place] if place >= 0 else 0
    if place >= 0:
        return passed(t, s.device, w, k, chain.stop[place], np.random.random() < FAR, most)
    if s.value[1] > 0:
        return 0
    return -1 if delay(t, s.device, w, k, moved, (size, to), most) > most else 0


@njit(cache=True, nogil=True, long=True)
def anneal(
    t: Tables,
    b: Bytes,
    units: Units,
    allowed: NDArray[np.bool_],
    tail: IntArray,
    s: AnnealingState,
    both: tuple[Work, Work],
    slack: Slack,
    temperatures: tuple[float, float],
    moves: int,
) -> tuple[int, int]:
    """``moves`` simulated moves, or :data:`JUDGED` times as many that are judged; the temperature falls from
    ``temperatures[0]`` to ``temperatures[1]`` ns. (How many were judged, how many of these simulated.)

    A candidate that isn't left out for its delay is simulated in the other one of ``both``, from its first effect on.
    """
    w, other = both
    count = len(s.device)
    chain = Chain(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64))
    moved, old, done, judged = np.zeros(count, np.int64), np.zeros(count, np.int64), 0, 0
    for v, key in enumerate(narrow(s.key)):
        s.key[v] = key
    length, key_share = -1, KEY if len(slack.late) > 0 else KEY_OF_ALL
    while done < moves and judged < JUDGED * moves:
        if length < 0:
            if judged == 0:  # from the beginning, by the same code as every trial
                trial(t, s.device, s.key, tail, NEVER, (other, w), moved, (-1, 0))
            length = critical(t, s.device, w, chain)
            if len(slack.late) > 0:
                fill(t, s.device, w, s.value[0], slack)
        judged += 1
        size, to, place = _propose(t, units, allowed, s, chain, length, key_share, moved)
        if size < 0 or (size == 0 and place < 0):
            continue
        share = max(done / moves, judged / (JUDGED * moves))
        worse = int(-temperature(temperatures[0], temperatures[1], share) * np.log(1.0 - np.random.random()))
        goal = _promising(t, s, w, slack, chain, moved, (size, to, place), worse)
        if goal < 0:
            continue
        keyed, old_key = (chain.stop[place], s.key[chain.stop[place]]) if place >= 0 else (-1, 0)
        row = first_change(t, s.device, s.key, w, moved, (size, to), keyed)
        if keyed >= 0:
            s.key[keyed] = s.key[goal] - 1
        for i in range(size):
            old[i] = s.device[moved[i]]
            s.device[moved[i]] = to
        done, over = done + 1, -1
        limit = NEVER if s.value[1] > 0 else s.value[0] + 1 + worse
        step = trial(t, s.device, s.key, tail, limit, (w, other), moved, (row, size))
        if step >= 0:
            take(t, s.device, (w, other), moved, (row, size))
            over = excess_of(t, b, s.device, other)
        if over < 0 or over > s.value[1]:
            if step >= 0 and row >= 0:  # its moments have been handed over: the next trial is from the beginning
                w.kept.rows[0] = 0
            for i in range(size):
                s.device[moved[i]] = old[i]
            if keyed >= 0:
                s.key[keyed] = old_key
            continue
        w, other = other, w
        s.value[0], s.value[1], length = step, over, -1
        _keep_best(s)
    return judged, done
