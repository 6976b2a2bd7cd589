"""A partition of our own as a start: work shared out evenly, few transfers, and bytes that fit.

What is made smaller, by moving units between devices (annealing), is

    10 · static bytes too many (as the ns of sending them) + transfers in ns + ``uneven`` · work above shares in ns

Each device has a share of the work of each phase (:mod:`~chipmap.heuristics.placement.starts.phases`). With one phase
it knows no time.

A storage is sent once to each device that reads it, which METIS can't count. Static bytes are those of memory rule
``static``; with rule ``live`` only what rests for the whole step counts. A move costs what its operations touch: there
are some 10^5 to 10^6 of them a second, on graphs of any size. What comes out differs a lot from seed to seed, so that
the best of several is taken, by simulation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.search.units import Units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.starts.coarse import clusters
from chipmap.heuristics.placement.starts.items import Items, StorageNets, nets
from chipmap.heuristics.placement.starts.list_scheduling import LATE
from chipmap.heuristics.placement.starts.phases import Phases, phases
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.kernels import njit
from chipmap.kernels.annealing import temperature

#: Weight of a byte too many (in the ns of sending it); what work above a device's share may weigh, in turn.
OVER, UNEVEN = 10.0, (4.0, 2.0, 1.0)
#: First and last temperature, as shares of the work of a device.
HOT, COLD = 1e-2, 1e-5
#: Moves between two looks at the clock; moves for each operation, and at most. With memory to spare a half will do.
CHUNK, MOVES, MOST, HALF = 20_000, 400, 800_000, 400_000
#: Where bytes remain too many, it goes on so many times, and each time they weigh so many times more.
AGAIN, HEAVIER = 4, 5.0
#: Seeds of compiled code are below this.
SEEDS = 2**31
#: Units of more operations are moved the more rarely, so that each size gets as much time.
LARGE = 16
#: Operations from which on clusters are moved before single operations, and where in the fall of the temperature these
#: begin then.
LARGE_GRAPH, FINE = 20_000, 0.5


class Style(NamedTuple):
    """The phases of a partition, what work above a share weighs, and the ``late`` part of the fall of the temperature
    that is left out: more than 0 where it goes on from a good placement."""

    phases: Phases
    uneven: float
    late: float = 0.0


class PartitionState(NamedTuple):
    """``device`` [N]; ``there`` [K, D]: how many operations on a device touch a net; ``work`` [B, D] of each phase;
    ``held`` [D]."""

    device: IntArray
    there: IntArray
    work: IntArray
    held: IntArray


def partition(
    problem: PlacementProblem,
    units: Units,
    device: IntArray,
    seed: int = 0,
    deadline: Deadline = Deadline(),
    most: int = MOST,
    style: Style | None = None,
) -> IntArray:
    """The devices [N] that annealing from ``device`` ends with, after so many moves at most.

    Without a ``style`` there is one phase, and the weight of uneven work changes with the seed.
    """
    if problem.devices == 1 or not problem.operations:
        return device
    parts, uneven, late = style or Style(phases(problem, problem.order, 1), UNEVEN[seed % len(UNEVEN)])
    # for another layout of the times the annealing would be compiled again
    items = Items(nets(problem), units, common_devices(problem), np.ascontiguousarray(problem.time), parts)
    coarse = clusters(problem, items) if problem.operations >= LARGE_GRAPH and not late else None
    limits = np.where((problem.memory >= 0) & (problem.instance.task.memory != "none"), problem.memory, LATE)
    effort = _Effort(limits, min(most, MOVES * problem.operations), seed, deadline)
    rate = OVER * int(items.nets.cost.sum()) / max(1, int(items.nets.bytes.sum()))
    for _ in range(AGAIN + 1):
        if coarse is not None:
            device = _annealed(coarse.items, device[coarse.first], (rate, uneven), effort).device[coarse.of]
        now = _annealed(items, device, (rate, uneven), effort, late if coarse is None else FINE)
        if (now.held <= limits).all():
            break
        device, rate = now.device, rate * HEAVIER
    return now.device


class _Effort(NamedTuple):
    """Memories [D], moves of an annealing, the seed, and when it must end."""

    limits: IntArray
    moves: int
    seed: int
    deadline: Deadline


def _annealed(
    items: Items, device: IntArray, weigh: tuple[float, float], effort: _Effort, begin: float = 0.0
) -> PartitionState:
    """What annealing from ``device`` ends with; ``begin``: the part of the fall of the temperature that is left out.

    ``weigh``: the weights of a byte too many, and of work above shares.
    """
    now, share, total = _filled(items, device), int(items.phases.share.sum()), effort.moves
    for done in range(0, total, CHUNK):
        effort.deadline.check()
        last = min(total, done + CHUNK)
        hot, cold = (_temperature(share, begin + (1 - begin) * moves / total) for moves in (done, last))
        # fmt: off
        _anneal(items.nets, items.units, items.allowed, items.time, now, effort.limits, items.phases, weigh,
                (hot, cold), last - done, (effort.seed * MOST + done) % SEEDS)
        # fmt: on
    return now


def _filled(items: Items, device: IntArray) -> PartitionState:
    """The state of items on these devices."""
    devices = items.time.shape[1]
    now = PartitionState(
        device=device.copy(),
        there=np.zeros((len(items.nets.cost), devices), dtype=np.int64),
        work=np.zeros((len(items.phases.share), devices), dtype=np.int64),
        held=np.zeros(devices, dtype=np.int64),
    )
    _fill(items.nets, items.time, items.phases, now)
    return now


def _temperature(share: int, part: float) -> float:
    """The temperature in ns after a part of all moves."""
    return float(HOT * share * (COLD / HOT) ** part)


@njit(cache=True, nogil=True)
def _fill(n: StorageNets, time: IntArray, parts: Phases, now: PartitionState) -> None:
    for v in range(len(now.device)):
        d = now.device[v]
        now.work[parts.phase[v], d] += time[v, d]
        now.held[d] += n.weights[v]
        for i in range(n.at[v], n.at[v + 1]):
            net = n.touched[i]
            if now.there[net, d] == 0:
                now.held[d] += n.bytes[net]
            now.there[net, d] += 1


@njit(part=True)
def _shift(n: StorageNets, time: IntArray, parts: Phases, now: PartitionState, v: int, to: int) -> tuple[int, int]:
    """Move operation ``v``; how many ns of transfers that adds, and of work above shares."""
    d, added, b = now.device[v], 0, parts.phase[v]
    share = parts.share[b]
    before = max(0, now.work[b, d] - share) + max(0, now.work[b, to] - share)
    now.device[v] = to
    now.work[b, d] -= time[v, d]
    now.work[b, to] += time[v, to]
    after = max(0, now.work[b, d] - share) + max(0, now.work[b, to] - share)
    now.held[d] -= n.weights[v]
    now.held[to] += n.weights[v]
    for i in range(n.at[v], n.at[v + 1]):
        net = n.touched[i]
        now.there[net, d] -= 1
        if now.there[net, d] == 0:
            now.held[d] -= n.bytes[net]
            added -= n.cost[net]
        if now.there[net, to] == 0:
            now.held[to] += n.bytes[net]
            added += n.cost[net]
        now.there[net, to] += 1
    return added, after - before


@njit(part=True)
def _too_many(now: PartitionState, limits: IntArray, rate: float) -> float:
    """What bytes too many weigh; ``rate``: the weight of one."""
    found = 0.0
    for d in range(len(limits)):
        found += rate * max(0, now.held[d] - limits[d])
    return found


@njit(cache=True, nogil=True, long=True)
def _anneal(
    n: StorageNets,
    units: Units,
    allowed: NDArray[np.bool_],
    time: IntArray,
    now: PartitionState,
    limits: IntArray,
    parts: Phases,
    weigh: tuple[float, float],
    temperatures: tuple[float, float],
    moves: int,
    seed: int,
) -> None:
    np.random.seed(seed)
    count, devices = len(now.device), len(limits)
    rate, uneven = weigh
    moved, heavy = np.zeros(count, np.int64), _too_many(now, limits, rate)
    for k in range(moves):
        v, level = np.random.randint(count), np.random.randint(len(units.at))
        home = now.device[v]
        to = (home + 1 + np.random.randint(devices - 1)) % devices
        if np.random.random() < 0.5 and n.at[v] < n.at[v + 1]:  # where something that it touches is as well
            net = n.touched[np.random.randint(n.at[v], n.at[v + 1])]
            d = np.random.randint(devices)
            while now.there[net, d] == 0:
                d = (d + 1) % devices
            to = d
        if to == home:
            continue
        one, size, fine = units.unit[level, v], 0, True
        whole = units.at[level, one + 1] - units.at[level, one]
        if whole * np.random.random() > LARGE:
            continue
        for i in range(units.at[level, one], units.at[level, one + 1]):
            u = units.members[level, i]
            if now.device[u] == home:
                moved[size] = u
                size += 1
                fine = fine and allowed[u, to]
        if not fine:
            continue
        added, above = 0, 0
        for i in range(size):
            sent, more = _shift(n, time, parts, now, moved[i], to)
            added += sent
            above += more
        after = _too_many(now, limits, rate)
        worse = -temperature(temperatures[0], temperatures[1], k / moves) * np.log(1.0 - np.random.random())
        if added + uneven * above + after - heavy <= worse:
            heavy = after
            continue
        for i in range(size):
            _shift(n, time, parts, now, moved[i], home)
