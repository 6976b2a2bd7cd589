"""The annealing of ``placement`` with places for what is learned: which moves are proposed, which are simulated.

With no use of :class:`Learned` set it makes the same kinds of moves with the same chances as
:func:`chipmap.heuristics.placement.search.annealing.anneal`, whose parts it calls. Three uses:

- ``arms``: a bandit chooses the kind of the move and the level of its unit, by what these gained per event simulated;
- ``places``: the operation of the critical chain is drawn with chances ∝ exp(weights · features of the place);
- ``filter``: a move that passed the estimate of its delay is simulated only where a network expects enough of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.search.annealing import (
    ANY,
    BUSY,
    FAR,
    JUDGED,
    KEY,
    KEY_OF_ALL,
    SENT,
    AnnealingState,
    Chain,
    _keep_best,
    critical,
)
from chipmap.heuristics.placement.search.slack import Slack, delay, fill, passed
from chipmap.heuristics.placement.search.units import Units
from chipmap.heuristics.placement.simulation.checkpoints import first_change
from chipmap.heuristics.placement.simulation.memory import Bytes, excess_of
from chipmap.heuristics.placement.simulation.simulator import NEVER, narrow, take, trial
from chipmap.heuristics.placement.simulation.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature

Floats = NDArray[np.float64]
#: Kinds of moves: any unit; a key; the unit that waits for a busy device, the one that keeps it busy; the reader to the
#: producer of a transfer, the reverse; a unit that waits for nothing.
ANYWHERE, KEYED, WAITS, HOLDS, READER, PRODUCER, PLAIN = range(7)
KINDS = 7
#: Features of a move (:func:`_features`) and of a place in the chain (:func:`_place_features`).
MOVE_FEATURES, PLACE_FEATURES = 20, 8
#: Events that judging a move costs, about; the same for a move that is simulated, beside its events.
JUDGING, STARTING = 8.0, 60.0
#: What a bandit's arm keeps of its record when moves were simulated, its least chance, and what it begins with.
FADE, LEAST_CHANCE, PRIOR = 0.9995, 0.2, 20.0


class Learned(NamedTuple):
    """``use`` [4]: arms, places, filter, and whether to log.

    ``gain``, ``cost`` [kinds, levels]: of the bandit. ``weights`` [PLACE_FEATURES]; ``sums`` [N]: scratch.
    ``inner`` [H, MOVE_FEATURES + 1], ``outer`` [H + 1]: the network, whose output is the logarithm of the odds of
    shorter step; below ``threshold[0]`` a move is simulated with chance ``threshold[1]`` alone. ``shares``: of moves of
    any unit, and of keys where a busy device delays the chain (-1: as in the search).

    ``moves`` [L, MOVE_FEATURES], ``places`` [L, PLACE_FEATURES], ``outcome`` [L, 3]: what is logged: 1 if taken, the
    gain in ns, events; ``filled`` [1]. ``tally`` [8]: proposals, without a move, left out by delay, by the filter,
    simulated, taken, shorter, events. ``tries`` [N]: simulations of an operation's moves since the last move taken.
    """

    use: NDArray[np.bool_]
    gain: Floats
    cost: Floats
    weights: Floats
    sums: Floats
    inner: Floats
    outer: Floats
    threshold: Floats
    shares: Floats
    moves: Floats
    places: Floats
    outcome: Floats
    filled: IntArray
    tally: Floats
    tries: IntArray


def learned(operations: int, levels: int, *uses: str, hidden: int = 0, rows: int = 0) -> Learned:
    """Nothing learned yet; with room for a network and for a log."""
    use = np.array([one in uses for one in ("arms", "places", "filter", "log")])
    return Learned(
        use,
        np.full((KINDS, levels), 1.0),
        np.full((KINDS, levels), 1.0),
        np.zeros(PLACE_FEATURES),
        np.zeros(operations),
        np.zeros((hidden, MOVE_FEATURES + 1)),
        np.zeros(hidden + 1),
        np.array([-np.inf, 0.0]),
        np.array([ANY, -1.0]),
        np.zeros((rows, MOVE_FEATURES)),
        np.zeros((rows, PLACE_FEATURES)),
        np.zeros((rows, 3)),
        np.zeros(1, np.int64),
        np.zeros(8),
        np.zeros(operations, np.int64),
    )


@njit(part=True, _nrt=False)
def _unit_moves(
    units: Units, allowed: NDArray[np.bool_], device: IntArray, v: int, to: int, level: int, moved: IntArray
) -> int:
    """Put the unit of ``v`` on that level on device ``to``: how many members move (-1: it isn't allowed there)."""
    one, count = units.unit[level, v], 0
    for i in range(units.at[level, one], units.at[level, one + 1]):
        u = units.members[level, i]
        if device[u] != to:
            if not allowed[u, to]:
                return -1
            moved[count] = u
            count += 1
    return count


@njit(part=True, _nrt=False)
def _place_features(t: Tables, s: AnnealingState, w: Work, chain: Chain, k: int, step: int, out: Floats) -> None:
    """Of place k of the chain: constant, three kinds of waiting, time, wait, start, end of the chain's other."""
    v, why = chain.stop[k], chain.why[k]
    for i in range(PLACE_FEATURES):
        out[i] = 0.0
    out[0], out[1], out[2] = 1.0, 1.0 if why == BUSY else 0.0, 1.0 if why == SENT else 0.0
    out[3] = np.log1p(1000.0 * t.time[v, s.device[v]] / step)
    out[4] = np.log1p(1000.0 * (w.start[v] - w.ready[v]) / step)
    out[5] = w.start[v] / step
    if chain.other[k] >= 0:
        u = chain.other[k]
        end = w.start[u] + t.time[u, s.device[u]]
        out[6] = np.log1p(1000.0 * t.time[u, s.device[u]] / step)
        out[7] = np.log1p(1000.0 * max(0, w.start[v] - end) / step)


@njit(part=True, _nrt=False)
def _weigh_places(
    t: Tables, s: AnnealingState, w: Work, chain: Chain, length: int, one: Learned, features: Floats
) -> None:
    """``sums``: cumulated exp(weights · features) of the chain's places."""
    total = 0.0
    for k in range(length):
        _place_features(t, s, w, chain, k, max(1, s.value[0]), features)
        score = 0.0
        for i in range(PLACE_FEATURES):
            score += one.weights[i] * features[i]
        total += np.exp(min(20.0, score))
        one.sums[k] = total


@njit(part=True, _nrt=False)
def _draw_place(length: int, one: Learned) -> int:
    """A place of the chain: by weights, or each alike."""
    if not one.use[1]:
        return int(np.random.randint(length))
    x, low, high = np.random.random() * one.sums[length - 1], 0, length - 1
    while low < high:
        middle = (low + high) >> 1
        if one.sums[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@njit(part=True, _nrt=False)
def _chance(one: Learned, kind: int, level: int) -> float:
    """What an arm gained per event, of which the best arm's is 1, at least :data:`LEAST_CHANCE`; 1 without a bandit."""
    return float(one.gain[kind, level] / one.cost[kind, level])


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
    one: Learned,
) -> tuple[int, int, int, int, int, int]:
    """(moved operations, their device, place whose key changes or -1, kind, level, place of the chain or -1)."""
    devices, levels = len(t.gap), len(units.at)
    other = (np.random.randint(max(1, devices - 1)) + 1) % devices
    level = np.random.randint(levels)
    if length == 0 or s.value[1] > 0 or np.random.random() < one.shares[0]:
        v = np.random.randint(len(s.device))
        to = (s.device[v] + other) % devices
        return _unit_moves(units, allowed, s.device, v, to, level, moved), to, -1, ANYWHERE, level, -1
    k = _draw_place(length, one)
    v, partner, first = chain.stop[k], chain.other[k], np.random.random() < 0.5
    if chain.why[k] == BUSY:
        if devices == 1 or np.random.random() < share:
            return 0, 0, k, KEYED, 0, k
        mover = v if first else partner
        to = (s.device[mover] + other) % devices
        kind = WAITS if first else HOLDS
        return _unit_moves(units, allowed, s.device, mover, to, level, moved), to, -1, kind, level, k
    if chain.why[k] == SENT:
        mover, at = (v, partner) if first else (partner, v)
        to, kind = s.device[at], READER if first else PRODUCER
        return _unit_moves(units, allowed, s.device, mover, to, level, moved), to, -1, kind, level, k
    to = (s.device[v] + other) % devices
    return _unit_moves(units, allowed, s.device, v, to, level, moved), to, -1, PLAIN, level, k


@njit(part=True, _nrt=False)
def _accepts(one: Learned) -> float:
    """The most that an arm has gained per event."""
    most = 0.0
    for kind in range(KINDS):
        for level in range(one.gain.shape[1]):
            most = max(most, _chance(one, kind, level))
    return most


@njit(part=True, _nrt=False)
def _features(
    t: Tables,
    s: AnnealingState,
    w: Work,
    one: Learned,
    chain: Chain,
    moved: IntArray,
    move: tuple[int, int, int, int, int, int],
    told: tuple[int, int, float, float, int],
    loads: IntArray,
    out: Floats,
) -> None:
    """Of a move: its kind (7), delay and limit over the temperature, size, work, level, what is simulated again, loads,
    the time of its operation, its tries, the temperature's share, devices."""
    size, to, _, kind, level, at = move
    late, worse, heat, share, row = told
    step = float(max(1, s.value[0]))
    for i in range(MOVE_FEATURES):
        out[i] = 0.0
    out[kind] = 1.0
    out[7] = max(-5.0, min(5.0, late / heat))
    out[8] = min(5.0, worse / heat)
    out[9] = max(-5.0, min(5.0, (worse - late) / heat))
    out[10] = np.log1p(size)
    work = 0
    for i in range(size):
        work += t.time[moved[i], to]
    out[11] = np.log1p(1000.0 * work / step)
    out[12] = level / 6.0
    out[13] = 1.0 - (row + 1) / (1.0 + len(w.kept.slot))
    if size > 0:
        out[14] = (loads[s.device[moved[0]]] - loads[to]) / step
        out[15] = loads[to] / step
    v = chain.stop[at] if at >= 0 else moved[0]
    out[16] = np.log1p(1000.0 * t.time[v, s.device[v]] / step)
    out[17] = np.log1p(float(one.tries[v]))
    out[18] = share
    out[19] = 1.0 / len(t.gap)


@njit(part=True, _nrt=False)
def _expected(one: Learned, features: Floats) -> float:
    """The network's output."""
    hidden = one.inner.shape[0]
    total = one.outer[hidden]
    for h in range(hidden):
        z = one.inner[h, MOVE_FEATURES]
        for i in range(MOVE_FEATURES):
            z += one.inner[h, i] * features[i]
        if z > 0.0:
            total += one.outer[h] * z
    return float(total)


@njit(cache=True, nogil=True, long=True)
def anneal_learned(
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
    one: Learned,
) -> tuple[int, int]:
    """As :func:`~chipmap.heuristics.placement.search.annealing.anneal`, with what ``one`` has learned or learns."""
    w, other = both
    count = len(s.device)
    chain = Chain(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64))
    moved, old, done, judged = np.zeros(count, np.int64), np.zeros(count, np.int64), 0, 0
    features, of_place, loads = np.zeros(MOVE_FEATURES), np.zeros(PLACE_FEATURES), np.zeros(len(t.gap), np.int64)
    for v, key in enumerate(narrow(s.key)):
        s.key[v] = key
    length, key_share, most = -1, KEY if len(slack.late) > 0 else KEY_OF_ALL, 1.0
    if one.shares[1] >= 0.0:
        key_share = one.shares[1]
    while done < moves and judged < JUDGED * moves:
        if length < 0:
            if judged == 0:  # from the beginning, by the same code as every trial
                trial(t, s.device, s.key, tail, NEVER, (other, w), moved, (-1, 0))
            length = critical(t, s.device, w, chain)
            if len(slack.late) > 0:
                fill(t, s.device, w, s.value[0], slack)
            if one.use[1]:
                _weigh_places(t, s, w, chain, length, one, of_place)
            if one.use[2] or one.use[3]:
                for d in range(len(t.gap)):
                    loads[d] = 0
                for v in range(count):
                    loads[s.device[v]] += t.time[v, s.device[v]]
                    one.tries[v] = 0
            if one.use[0]:
                most = _accepts(one)
        move = _propose(t, units, allowed, s, chain, length, key_share, moved, one)
        size, to, place, kind, level, at = move
        one.tally[0] += 1
        if size < 0 or (size == 0 and place < 0):
            one.tally[1] += 1
            judged += 1
            continue
        if one.use[0] and np.random.random() > max(LEAST_CHANCE, _chance(one, kind, level) / most):
            continue
        judged += 1
        share = max(done / moves, judged / (JUDGED * moves))
        heat = temperature(temperatures[0], temperatures[1], share)
        worse, late, goal = int(-heat * np.log(1.0 - np.random.random())), 0, 0
        if len(slack.late) == 0:
            goal = chain.other[place] if place >= 0 else 0
        elif place >= 0:
            goal = passed(t, s.device, w, slack, chain.stop[place], np.random.random() < FAR, worse)
        elif s.value[1] == 0:
            late = delay(t, s.device, w, slack, moved, (size, to), worse)
            goal = -1 if late > worse else 0
        one.cost[kind, level] += JUDGING
        if goal < 0:
            one.tally[2] += 1
            continue
        keyed, old_key = (chain.stop[place], s.key[chain.stop[place]]) if place >= 0 else (-1, 0)
        row = first_change(t, s.device, s.key, w, moved, (size, to), keyed)
        if one.use[2] or one.use[3]:
            _features(t, s, w, one, chain, moved, move, (late, worse, heat, share, row), loads, features)
            one.tries[chain.stop[at] if at >= 0 else moved[0]] += 1
            poor = one.use[2] and _expected(one, features) < one.threshold[0]
            if poor and np.random.random() >= one.threshold[1]:
                one.tally[3] += 1
                continue
            if one.use[3] and at >= 0:
                _place_features(t, s, w, chain, at, max(1, s.value[0]), of_place)
        if keyed >= 0:
            s.key[keyed] = s.key[goal] - 1
        for i in range(size):
            old[i] = s.device[moved[i]]
            s.device[moved[i]] = to
        done, over = done + 1, -1
        limit = NEVER if s.value[1] > 0 else s.value[0] + 1 + worse
        begun = w.kept.mark[w.kept.slot[row], 4] if row >= 0 else 0
        step = trial(t, s.device, s.key, tail, limit, (w, other), moved, (row, size))
        events = other.logged[0] - begun
        if step >= 0:
            take(t, s.device, (w, other), moved, (row, size))
            over = excess_of(t, b, s.device, other)
        taken = not (over < 0 or over > s.value[1])
        shorter = s.value[0] - step if taken and s.value[1] == 0 else 0
        one.tally[4] += 1
        one.tally[7] += events
        one.cost[kind, level] += STARTING + events
        if one.use[0]:
            one.gain[kind, level] += PRIOR * min(4.0, max(0.0, shorter / heat))
            for i in range(KINDS):
                for j in range(one.gain.shape[1]):
                    one.gain[i, j] *= FADE
                    one.cost[i, j] *= FADE
        if one.use[3]:
            line = one.filled[0]
            if line < len(one.outcome):
                for i in range(MOVE_FEATURES):
                    one.moves[line, i] = features[i]
                for i in range(PLACE_FEATURES):
                    one.places[line, i] = of_place[i] if at >= 0 else 0.0
                one.outcome[line, 0] = 1.0 if taken else 0.0
                one.outcome[line, 1], one.outcome[line, 2] = shorter / heat, events
                one.filled[0] += 1
        if not taken:
            if step >= 0 and row >= 0:  # its moments have been handed over: the next trial is from the beginning
                w.kept.rows[0] = 0
            for i in range(size):
                s.device[moved[i]] = old[i]
            if keyed >= 0:
                s.key[keyed] = old_key
            continue
        one.tally[5] += 1
        one.tally[6] += shorter > 0
        w, other = other, w
        s.value[0], s.value[1], length = step, over, -1
        _keep_best(s)
    return judged, done
