"""The compiled states of the annealing, and their values.

A move writes what it proposes into *slots*: a slot is one model's segments in one window. :func:`judge` checks C2, C3
and C5 of all slots and counts latencies and energies anew, from sums over prefixes of layers. :func:`accept` makes
them the state. A state always obeys C0 to C3 and C5. Limits (C4) are a penalty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.multimodel.problem import FloatArray, IntArray
from chipmap.kernels import njit
from chipmap.kernels.annealing import uniform as next_uniform

#: How many times a share above a limit counts.
PENALTY = 10.0
#: Most slots of a move.
SLOTS = 4
#: Entries of ``Tables.task``: the objective as a position of :data:`OBJECTIVES`, pJ per ns of the weighted sum,
#: limits on T1 and T2 (infinite: none), and 1 or 0: whether the receiver pays as well, a limit or deadline is set, an
#: SRAM is limited. Then pJ per ns of static energy, and bytes per ns of DRAM and of each channel that are shared (0:
#: none are).
OBJECTIVE, WATTS, TIME_LIMIT, ENERGY_LIMIT, BOTH, LIMITED, MEMORY, STATIC, DRAM, CHANNEL = range(10)
OBJECTIVES = ("latency", "energy", "weighted", "edp")

#: Counting references to the arrays of a state in each call would take ten times as long as a move. All arrays belong
#: to the caller: nothing here owns or makes one.
#: Functions that Python calls, and that compiled code alone calls.
called: Any = njit(cache=True, nogil=True, _nrt=False, long=True)
compiled: Any = njit(part=True, _nrt=False)


class Tables(NamedTuple):
    """The instance. Rows: the layers of all models one after the other, with one more behind each model's last.

    ``base``, ``rounds``, ``deadline`` [M]: a model's first row, q - 1, its deadline (-1: none). ``time``, ``energy``
    [rows, C]: sums over the model's layers before a row, of times of a mini-batch (ns) and of energies with weights
    (pJ). ``read_time``, ``read_energy``, ``write_time``, ``write_energy`` [rows, C]. ``send_time``, ``send_energy``
    [rows]. ``weight_time``, ``weights`` [rows]: sums over layers before a row. ``need`` [levels, rows]: the most
    bytes of 2^level layers from a row on. ``sram`` [C]. ``linked`` [C, C]. ``near`` [C, most], ``degree`` [C]: links.
    ``task``: entries ``OBJECTIVE`` to ``CHANNEL``. ``shares`` [moves]: running sums of the moves' probabilities.
    Of what is shared: ``read``, ``sent`` [rows]: bytes of the batch. ``ways`` [2, C, most]: channels from and to DRAM
    (-1: no more). ``channel`` [C, C]: that of a link, behind them one for nothing.
    """

    base: IntArray
    rounds: IntArray
    deadline: IntArray
    time: IntArray
    energy: IntArray
    read_time: IntArray
    read_energy: IntArray
    write_time: IntArray
    write_energy: IntArray
    send_time: IntArray
    send_energy: IntArray
    weight_time: IntArray
    weights: IntArray
    need: IntArray
    sram: IntArray
    linked: NDArray[np.bool_]
    near: IntArray
    degree: IntArray
    task: FloatArray
    shares: FloatArray
    read: IntArray
    sent: IntArray
    ways: IntArray
    channel: IntArray


class ScheduleState(NamedTuple):
    """A schedule of W windows, M models, C chiplets.

    ``first`` [W, M]: the model's first layer that isn't done before the window. ``size`` [W, M]: its segments in it.
    ``end`` [W, M, C]: the layers behind each segment's last. ``chip`` [W, M, C]: the segments' chiplets. ``owner``
    [W, C]: the model on a chiplet (-1: none). ``latency``, ``energy`` [W, M]. ``longest``, ``shared`` [W]: T and V.
    ``totals`` [3]: T1, T2 and the sum of all latencies. ``value`` [1]: the objective with its penalty.
    """

    first: IntArray
    size: IntArray
    end: IntArray
    chip: IntArray
    owner: IntArray
    latency: IntArray
    energy: IntArray
    longest: IntArray
    shared: IntArray
    totals: IntArray
    value: FloatArray


class Slots(NamedTuple):
    """What a move proposes, and room to work.

    ``used`` [1]: slots in use. By slot ``window``, ``model``, ``first``, ``size``, ``latency``, ``energy``,
    ``longest`` and ``shared`` (of its window), and ``end``, ``chip`` [slots, C]. ``totals`` [3] as those of a state.
    ``serial`` [1] numbers the proposals: ``mark`` [W, C] and ``changed`` [W, M] hold that of the last one that used a
    chiplet, or changed a model; ``slot`` [W, M] says in which slot. ``random`` [1]: the generator's state. ``least``
    [2, most layers + 2] and ``cut`` [C, most layers + 2] are rows of :func:`recut`. ``load`` [channels + 1]: bytes.
    ``focus`` [2]: the first window that moves may change, and the one behind the last such window.
    """

    used: IntArray
    window: IntArray
    model: IntArray
    first: IntArray
    size: IntArray
    latency: IntArray
    energy: IntArray
    longest: IntArray
    shared: IntArray
    end: IntArray
    chip: IntArray
    totals: IntArray
    serial: IntArray
    mark: IntArray
    changed: IntArray
    slot: IntArray
    random: NDArray[np.uint64]
    least: FloatArray
    cut: IntArray
    load: IntArray
    focus: IntArray


@compiled
def uniform(k: Slots) -> float:
    """A random number from 0 to below 1."""
    return float(next_uniform(k.random))


@compiled
def below(k: Slots, n: int) -> int:
    """A random integer from 0 to below ``n``."""
    return int(uniform(k) * n)


@compiled
def segment_time(p: Tables, m: int, a: int, b: int, c: int, head: bool, tail: bool) -> int:
    """t of layers ``a`` to below ``b`` on chiplet ``c``; ``head``, ``tail``: the first or last segment of a range."""
    row = p.base[m]
    time = p.time[row + b, c] - p.time[row + a, c]
    if head:
        time += p.read_time[row + a, c]
    elif p.task[BOTH] > 0:
        time += p.send_time[row + a - 1]
    return time + (p.write_time[row + b - 1, c] if tail else p.send_time[row + b - 1])


@compiled
def fits(p: Tables, m: int, a: int, b: int, c: int) -> bool:
    """C5 of layers ``a`` to below ``b`` on chiplet ``c``."""
    row, level = p.base[m], 0
    while 2 << level <= b - a:
        level += 1
    need = max(p.need[level, row + a], p.need[level, row + b - (1 << level)])
    return p.weights[row + b] - p.weights[row + a] + need <= p.sram[c]


@compiled
def load(s: ScheduleState, k: Slots, w: int, m: int) -> int:
    """A new slot with what model ``m`` has in window ``w``."""
    i = k.used[0]
    k.used[0] = i + 1
    k.window[i], k.model[i], k.first[i], n = w, m, s.first[w, m], s.size[w, m]
    k.size[i] = n
    for j in range(n):
        k.end[i, j] = s.end[w, m, j]
        k.chip[i, j] = s.chip[w, m, j]
    return i


@compiled
def assess(p: Tables, k: Slots, i: int) -> bool:
    """Count latency and energy of a slot; False where C3 or C5 don't hold."""
    m, n, a, row = k.model[i], k.size[i], k.first[i], p.base[k.model[i]]
    total, slowest, energy = 0, 0, 0
    for j in range(n):
        b, c = k.end[i, j], k.chip[i, j]
        if b <= a or (j > 0 and not p.linked[k.chip[i, j - 1], c]):
            return False
        if p.task[MEMORY] > 0 and not fits(p, m, a, b, c):
            return False
        time = segment_time(p, m, a, b, c, j == 0, j == n - 1)
        energy += p.energy[row + b, c] - p.energy[row + a, c]
        energy += p.write_energy[row + b - 1, c] if j == n - 1 else p.send_energy[row + b - 1]
        total += time
        slowest = max(slowest, time)
        a = b
    k.latency[i], k.energy[i] = 0, 0
    if n > 0:
        energy += p.read_energy[row + k.first[i], k.chip[i, 0]]
        total += p.weight_time[row + a] - p.weight_time[row + k.first[i]]
        k.latency[i], k.energy[i] = total + p.rounds[m] * slowest, energy
    return True


@compiled
def worth(p: Tables, s: ScheduleState, k: Slots, time: int, energy: int) -> float:
    """The objective of T1 and T2, with a penalty for what is above limits."""
    kind = p.task[OBJECTIVE]
    value, joules = float(time), energy + p.task[STATIC] * time
    if kind == 1:
        value = joules
    elif kind == 2:
        value = p.task[WATTS] * time + joules
    elif kind == 3:
        value = float(time) * joules
    if p.task[LIMITED] == 0:
        return value
    over = max(0.0, time / p.task[TIME_LIMIT] - 1) + max(0.0, joules / p.task[ENERGY_LIMIT] - 1)
    for m in range(len(p.base)):
        if p.deadline[m] < 0:
            continue
        elapsed, done = 0, 0
        for w in range(len(s.longest)):
            own, longest, shared = s.latency[w, m], s.longest[w], s.shared[w]
            for i in range(k.used[0]):
                if k.window[i] == w:
                    longest, shared = k.longest[i], k.shared[i]
                    if k.model[i] == m:
                        own = k.latency[i]
            if own > 0:
                done = elapsed + max(own, shared)
            elapsed += longest
        over += max(0.0, done / max(1, p.deadline[m]) - 1)
    return value * (1 + PENALTY * over)


@compiled
def amount(p: Tables, k: Slots, m: int, a: int, first: bool, b: int, last: bool, c: int, to: int) -> int:
    """Count the bytes of layers ``a`` to below ``b`` of a model on chiplet ``c``, which goes on on ``to``; those of
    DRAM are returned. ``first``, ``last``: whether it begins or ends the range."""
    row = p.base[m]
    read, out = p.weights[row + b] - p.weights[row + a], p.sent[row + b - 1]
    if first:
        read += p.read[row + a]
    if p.task[CHANNEL] > 0:
        for i in range(p.ways.shape[2]):
            if p.ways[0, c, i] >= 0:
                k.load[p.ways[0, c, i]] += read
            if last and p.ways[1, c, i] >= 0:
                k.load[p.ways[1, c, i]] += out
        if not last:
            k.load[p.channel[c, to]] += out
    return read + out if last else read


@compiled
def together(p: Tables, s: ScheduleState, k: Slots, w: int) -> int:
    """V of a window with the slots in place of what they change: all its bytes are counted anew."""
    total = 0
    for x in range(len(k.load)):
        k.load[x] = 0
    for m in range(len(p.base)):
        if k.changed[w, m] == k.serial[0]:
            i = k.slot[w, m]
            a, n = k.first[i], k.size[i]
            for j in range(n):
                c, to = k.chip[i, j], k.chip[i, min(j + 1, n - 1)]
                total += amount(p, k, m, a, j == 0, k.end[i, j], j == n - 1, c, to)
                a = k.end[i, j]
        else:
            a, n = s.first[w, m], s.size[w, m]
            for j in range(n):
                c, to = s.chip[w, m, j], s.chip[w, m, min(j + 1, n - 1)]
                total += amount(p, k, m, a, j == 0, s.end[w, m, j], j == n - 1, c, to)
                a = s.end[w, m, j]
    time = 0.0
    if p.task[DRAM] > 0:
        time = total / p.task[DRAM]
    if p.task[CHANNEL] > 0:
        most = 0
        for x in range(len(k.load)):
            most = max(most, k.load[x])
        time = max(time, most / p.task[CHANNEL])
    return int(np.ceil(time))


@compiled
def judge(p: Tables, s: ScheduleState, k: Slots) -> float:
    """The value with the slots in place of what they change; -1 where C2, C3 or C5 don't hold."""
    k.serial[0] += 1
    serial, used = k.serial[0], k.used[0]
    for i in range(used):
        k.changed[k.window[i], k.model[i]] = serial
        k.slot[k.window[i], k.model[i]] = i
    time, energy, spread = s.totals[0], s.totals[1], s.totals[2]
    for i in range(used):
        w = k.window[i]
        for j in range(k.size[i]):
            c = k.chip[i, j]
            owner = s.owner[w, c]
            if k.mark[w, c] == serial or (owner >= 0 and k.changed[w, owner] != serial):
                return -1.0
            k.mark[w, c] = serial
        if not assess(p, k, i):
            return -1.0
        energy += k.energy[i] - s.energy[w, k.model[i]]
        spread += k.latency[i] - s.latency[w, k.model[i]]
    for i in range(used):
        w, longest, fresh = k.window[i], 0, True
        for m in range(len(p.base)):
            if k.changed[w, m] == serial:
                longest = max(longest, k.latency[k.slot[w, m]])
                fresh = fresh and k.slot[w, m] >= i
            else:
                longest = max(longest, s.latency[w, m])
        k.shared[i] = 0
        if p.task[DRAM] > 0 or p.task[CHANNEL] > 0:
            k.shared[i] = together(p, s, k, w)
            longest = max(longest, k.shared[i])
        k.longest[i] = longest
        if fresh:  # the window's first slot counts it
            time += longest - s.longest[w]
    k.totals[0], k.totals[1], k.totals[2] = time, energy, spread
    return worth(p, s, k, time, energy)


@compiled
def accept(s: ScheduleState, k: Slots, value: float) -> None:
    """Put the slots into the state."""
    for i in range(k.used[0]):
        w, m = k.window[i], k.model[i]
        for j in range(s.size[w, m]):
            s.owner[w, s.chip[w, m, j]] = -1
    for i in range(k.used[0]):
        w, m, n = k.window[i], k.model[i], k.size[i]
        s.first[w, m], s.size[w, m] = k.first[i], n
        s.latency[w, m], s.energy[w, m] = k.latency[i], k.energy[i]
        s.longest[w], s.shared[w] = k.longest[i], k.shared[i]
        for j in range(n):
            s.end[w, m, j], s.chip[w, m, j] = k.end[i, j], k.chip[i, j]
            s.owner[w, k.chip[i, j]] = m
    s.totals[0], s.totals[1], s.totals[2] = k.totals[0], k.totals[1], k.totals[2]
    s.value[0] = value


@compiled
def taken(s: ScheduleState, k: Slots, i: int, c: int) -> bool:
    """Whether another model, or the slot itself, has the chiplet."""
    owner = s.owner[k.window[i], c]
    if owner >= 0 and owner != k.model[i]:
        return True
    for j in range(k.size[i]):  # noqa: SIM110 - compiled code has no any()
        if k.chip[i, j] == c:
            return True
    return False


@compiled
def copy(a: ScheduleState, b: ScheduleState) -> None:
    """``a`` into ``b``."""
    for w in range(a.first.shape[0]):
        for m in range(a.first.shape[1]):
            b.first[w, m], b.size[w, m] = a.first[w, m], a.size[w, m]
            b.latency[w, m], b.energy[w, m] = a.latency[w, m], a.energy[w, m]
            for j in range(a.size[w, m]):
                b.end[w, m, j], b.chip[w, m, j] = a.end[w, m, j], a.chip[w, m, j]
        for c in range(a.owner.shape[1]):
            b.owner[w, c] = a.owner[w, c]
        b.longest[w], b.shared[w] = a.longest[w], a.shared[w]
    for x in range(3):
        b.totals[x] = a.totals[x]
    b.value[0] = a.value[0]
