"""What the policy of moves sees: the schedule of a base placement, and each move of one unit away from it.

For base y, a move is a pair (unit i, device d) with d allowed and d ≠ y_i. Times are shares of the step time T, which
``log(1 + U x)`` makes comparable between graphs of different numbers U of units (*in logarithms*):

=====================  ==============================================================================================
column                 feature
=====================  ==============================================================================================
``on chain``           1 where an operation of i is on the critical chain
``chain``              time of i on the critical chain, in logarithms
``waits``, ``sends``   1 where i waits there for its device; where i sends or receives a transfer of the chain
``partner``            1 where such a transfer's other end is on d
``work``               time of i on its device, in logarithms
``slower``             (time of i on d less its time at home) / the latter, from -1 to 1
``begins``, ``lasts``  middle of i's first start and last end, and what is between them, over T
``queued``             mean over i's operations of the time from the last input to the start, over T, in logarithms
``to``, ``home``       time of sending between i and operations on d, and on its own device, in logarithms
``nearer``             (the former less the latter) / time of sending of all of i's tensors
``load``, ``own``      work of d and of the own device over T
``busy``, ``left``     share of i's span in which d is busy, and in which the own device is
``chain there``        time of operations on d on the critical chain, over T; ``chain here``: of the own device
``full``               static bytes on d over its memory, at most 2; 0 where memory is unlimited
``devices``            1 / D
``seen``, ``gained``   1 where the move was made before, from this or another base, and its gain then (100 times, at
                       most 1)
=====================  ==============================================================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.placement.keys import mean_sends
from chipmap.heuristics.placement.search.annealing import BUSY, SENT, Chain, critical
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.simulation.tables import Tables, Work
from chipmap.instances.placement.problem import IntArray
from chipmap.kernels import njit
from chipmap.learned.placement.scene import Scene

Floats = NDArray[np.float64]
#: Features of a move, in the order of the table.
MOVE_COLUMNS = (
    *("on chain", "chain", "waits", "sends", "partner", "work", "slower", "begins", "lasts", "queued", "to", "home"),
    *("nearer", "load", "own", "busy", "left", "chain there", "chain here", "full", "devices", "seen", "gained"),
)


@njit(cache=True, nogil=True)
def _critical(t: Tables, device: IntArray, w: Work, chain: Chain) -> int:
    """:func:`critical`, for callers from Python."""
    return critical(t, device, w, chain)


class Situation(NamedTuple):
    """P moves: ``unit`` [P], ``device`` [P], ``features`` [P, F]; ``critical`` [units]: what is on the chain."""

    unit: IntArray
    device: IntArray
    features: NDArray[np.float32]
    critical: NDArray[np.bool_]


class Viewer:
    """Makes situations of a scene; what all of them share is made once."""

    def __init__(self, scene: Scene) -> None:
        problem, unit = scene.problem, scene.unit
        self.scene, self._units, self._devices = scene, scene.units, problem.devices
        first = np.unique(unit, return_index=True)[1]
        self.allowed = np.logical_and.reduceat(
            common_devices(problem)[np.argsort(unit, kind="stable")], np.searchsorted(np.sort(unit), range(scene.units))
        )
        self._first = first
        storages = problem.storages
        self._from, self._to = storages.sources, storages.readers
        self._send = mean_sends(problem)[storages.read].astype(np.float64)
        between = unit[self._from] != unit[self._to]
        self._from, self._to, self._send = self._from[between], self._to[between], self._send[between]
        self._count = np.bincount(unit, minlength=scene.units)
        self._time = np.zeros((scene.units, problem.devices))
        np.add.at(self._time, unit, np.where(problem.allowed, problem.time, 0).astype(np.float64))
        self._bounded = problem.instance.task.memory != "none" and bool((problem.memory > 0).all())
        n = problem.operations
        self._chain = Chain(*(np.zeros(n, np.int64) for _ in range(3)))

    def chain(self, devices: IntArray, work: Work) -> Chain:
        """The critical chain of a schedule of ``devices`` [n]."""
        length = _critical(self.scene.tables, devices, work, self._chain)
        return Chain(*(part[:length] for part in self._chain))

    def look(self, base: IntArray, seen: Floats, gained: Floats) -> Situation:
        """The moves from ``base`` [units]; ``seen`` and ``gained`` [units, D] as in the columns."""
        scene = self.scene
        devices = scene.devices(base)
        worth, work = scene.simulated(devices)
        step = float(max(1, worth.step)) if worth.step < 2**61 else 1.0
        chain = self.chain(devices, work)
        of_unit = self._of_units(devices, work, chain, step)
        u, d = np.nonzero(self.allowed & (np.arange(self._devices) != base[:, None]))
        pairs = self._of_pairs(base, devices, work, chain, step)
        home = base[u]
        columns = [of_unit[:, k][u] for k in range(of_unit.shape[1])]
        on, chained, waits, sends, span, begins, lasts, queued = columns
        partner, to, busy = (part[u, d] for part in pairs[:3])
        near, left = pairs[1][u, home], pairs[2][u, home]
        all_sent = np.maximum(pairs[1].sum(axis=1), 1e-12)[u]
        here, there = self._time[u, home], self._time[u, d]
        load, linked, full = self._of_devices(devices, chain, step)
        table = (
            *(on, self._log(chained), waits, sends, partner, self._log(span)),
            *(np.clip((there - here) / np.maximum(here, 1.0), -1.0, 1.0), begins, lasts, self._log(queued)),
            *(self._log(to), self._log(near), (to - near) / all_sent, load[d], load[home], busy, left),
            *(linked[d], linked[home], full[d], np.full(len(u), 1.0 / self._devices)),
            *(seen[u, d], np.clip(100.0 * gained[u, d], -1.0, 1.0)),
        )
        return Situation(u, d, np.column_stack(table).astype(np.float32), of_unit[:, 0] > 0)

    def _log(self, shares: Floats) -> Floats:
        found: Floats = np.log1p(self._units * shares)
        return found

    def _of_units(self, devices: IntArray, work: Work, chain: Chain, step: float) -> Floats:
        """[units, 8]: on chain, chain, waits, sends, work, begins, lasts, queued, as shares."""
        scene, n = self.scene, len(devices)
        unit, found = scene.unit, np.zeros((scene.units, 8))
        time = scene.problem.time[np.arange(n), devices].astype(np.float64)
        found[unit[chain.stop], 0] = 1.0
        np.add.at(found[:, 1], unit[chain.stop], time[chain.stop] / step)
        found[unit[chain.stop[chain.why == BUSY]], 2] = 1.0
        sent = chain.why == SENT
        found[unit[chain.stop[sent]], 3] = found[unit[chain.other[sent]], 3] = 1.0
        found[:, 4] = np.bincount(unit, time / step, scene.units)
        begins, ends = np.full(scene.units, np.inf), np.zeros(scene.units)
        np.minimum.at(begins, unit, work.start / step)
        np.maximum.at(ends, unit, (work.start + time) / step)
        found[:, 5], found[:, 6] = (begins + ends) / 2, ends - begins
        waited = np.maximum(0, work.start - work.ready) / step
        found[:, 7] = np.bincount(unit, waited, scene.units) / self._count
        return found

    def _of_pairs(
        self, base: IntArray, devices: IntArray, work: Work, chain: Chain, step: float
    ) -> tuple[Floats, Floats, Floats]:
        """[units, D] each: partner of a transfer on the chain, time of sending, busy share of the unit's span."""
        unit, shape = self.scene.unit, (self._units, self._devices)
        partner, sending, busy = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        sent = chain.why == SENT
        v, other = chain.stop[sent], chain.other[sent]
        partner[unit[v], devices[other]] = partner[unit[other], devices[v]] = 1.0
        flat = np.bincount(unit[self._from] * self._devices + devices[self._to], self._send, sending.size)
        flat += np.bincount(unit[self._to] * self._devices + devices[self._from], self._send, sending.size)
        sending = flat.reshape(shape) / step
        time = self.scene.problem.time[np.arange(len(devices)), devices]
        begins = np.full(self._units, np.inf)
        ends = np.zeros(self._units)
        np.minimum.at(begins, unit, work.start)
        np.maximum.at(ends, unit, work.start + time)
        for d in range(self._devices):
            mine = np.flatnonzero(devices == d)
            mine = mine[np.argsort(work.start[mine], kind="stable")]
            if mine.size:
                at = np.column_stack((work.start[mine], work.start[mine] + time[mine])).ravel()
                until = np.cumsum(np.column_stack((np.zeros(mine.size), time[mine])).ravel())
                inside = np.interp(ends, at, until) - np.interp(begins, at, until)
                busy[:, d] = inside / np.maximum(1.0, ends - begins)
        return partner, sending, busy

    def _of_devices(self, devices: IntArray, chain: Chain, step: float) -> tuple[Floats, Floats, Floats]:
        """[D] each: load, time on the chain, static bytes over the memory."""
        problem, count = self.scene.problem, self._devices
        time = problem.time[np.arange(len(devices)), devices] / step
        load: Floats = np.bincount(devices, time, count).astype(np.float64)
        linked: Floats = np.bincount(devices[chain.stop], time[chain.stop], count).astype(np.float64)
        full = np.zeros(count)
        if self._bounded:
            full = np.minimum(2.0, np.bincount(devices, problem.weights, count) / problem.memory)
        return load, linked, full
