"""What the placement policy sees of a problem, what it decides, and what a decision is worth.

**Features.** Those of :mod:`chipmap.learned.features`, and behind them, for operation v:

=================  ==============================================================================  ==========
column             feature                                                                         range
=================  ==============================================================================  ==========
``sending``        log(1 + n · mean time of sending v's outputs / Σ work)                          0 to log n
``home 0`` to 3    cos(π k (d + 1/2) / D), k = 1 to 4, with d the device of v in the first split    -1 to 1
``devices``        1 / D                                                                           0 to 1
``communication``  Σ mean time of sending / (Σ of it + Σ work)                                     0 to 1
``fill``           Σ static bytes / Σ memories, at most 1; 0 where memory is unlimited             0 to 1
=================  ==============================================================================  ==========

**Units.** Groups of C1, and ends of the largest tensors while a unit's work stays below 1 / (:data:`PIECES` · D) of
all; what the first split or the allowed devices tell apart is never joined. One device is drawn for each unit.

**Prior** (ours, not the paper's). The first split is the best one by the decoder (one that fits first) of the three
human splits and, where the extra ``metis`` is installed, of METIS's two partitions. A unit's device there has
probability 1 - :data:`STRAY`, and the others share the rest. Devices that aren't allowed have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.keys import default_keys, mean_sends
from chipmap.heuristics.placement.published import metis
from chipmap.heuristics.placement.shared import common_devices, joined
from chipmap.heuristics.placement.simulation.memory import bytes_of, excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import Work, tables, workspace
from chipmap.heuristics.placement.starts import human
from chipmap.instances.placement.problem import IntArray, PlacementProblem
from chipmap.learned.features import COLUMNS, Floats, Graph, of_placement, table
from chipmap.records import InputError, SolverUnavailableError

#: The most devices that the policy is made for: as many as the family allows.
MOST_DEVICES = 64
#: Units that a device's share of the work is made of, at least.
PIECES = 16
#: Probability that a draw of the prior takes a unit to another device. Untuned.
STRAY = 0.05
#: Cosines of the device in the first split.
HOMES = 4
#: What one column of features each is called.
ALL_COLUMNS = (*COLUMNS, "sending", *(f"home {k}" for k in range(HOMES)), "devices", "communication", "fill")
#: Logarithm of the probability of what isn't allowed.
NEVER_DRAWN = -1e9


class Worth(NamedTuple):
    """Bytes ``over`` the memories (C6; where a route is missing, 2^62), and the ``step`` time in ns."""

    over: int
    step: int


def human_splits(problem: PlacementProblem) -> list[IntArray]:
    """The three human splits, devices [n] each."""
    made = human.layers(problem)
    return [human.split(problem, kind, made) for kind in human.SPLITS]


def metis_partitions(problem: PlacementProblem, seed: int = 0, deadline: Deadline = Deadline()) -> list[IntArray]:
    """METIS's partitions with parts of equal time and of equal bytes, devices [n] each; without those that fail (all
    of them where the extra isn't installed). Raises :class:`~chipmap.deadline.Stop`.
    """
    found = []
    for kind in metis.WEIGHTS:
        with suppress(metis.MetisError, SolverUnavailableError):
            found.append(metis.partition(problem, kind, seed, deadline))
    return found


class Scene:
    """A problem with objective step time. Raises :class:`InputError` for any other, and for too many devices.

    ``splits``: what the prior may be made of (the human ones, where nothing else is given). ``graph``; ``features``
    [n, :data:`ALL_COLUMNS`]; ``unit`` [n]: a number below ``units``; ``prior`` [units, D]: logarithms of
    probabilities; ``split``: the one that the prior is made of; ``tables``: those of the decoder.
    """

    def __init__(self, problem: PlacementProblem, splits: Sequence[IntArray] = ()) -> None:
        if not problem.timed:
            raise InputError("the policy is for step time", "task.objective", "Take another method.")
        if not 0 < problem.devices <= MOST_DEVICES:
            raise InputError(f"has {problem.devices} devices", "system.devices", f"Give 1 to {MOST_DEVICES}.")
        self.problem, self.graph = problem, of_placement(problem)
        self.tables, self._work = tables(problem), workspace(problem)
        self._bytes, self._key = bytes_of(problem), default_keys(problem)
        self._none = np.zeros(problem.operations, dtype=np.int64)
        self.split = min(splits or human_splits(problem), key=self.worth)
        self.unit = _units(problem, self.graph, self.split)
        self.units = int(self.unit.max(initial=-1)) + 1
        self.prior = self._prior()
        self.features = np.column_stack((table(self.graph), self._own()))

    def devices(self, drawn: IntArray) -> IntArray:
        """The devices [n] of a draw [units]."""
        found: IntArray = drawn[self.unit]
        return found

    def worth(self, devices: IntArray) -> Worth:
        """What the decoder makes of devices [n]: the better of the upward rank and ready times."""
        return min(self._decoded(devices, fifo) for fifo in (False, True))

    def simulated(self, devices: IntArray) -> tuple[Worth, Work]:
        """What devices [n] are worth, and the schedule of the better rule; it stands until the next decoding."""
        found = [self._decoded(devices, fifo) for fifo in (False, True)]
        if found[0] <= found[1]:  # the second one stands there
            self._decoded(devices, fifo=False)
        return min(found), self._work

    def _decoded(self, devices: IntArray, fifo: bool) -> Worth:
        step = int(simulate(self.tables, devices, self._key, fifo, self._none, NEVER, self._work))
        if step < 0:
            return Worth(NEVER, NEVER)
        return Worth(int(excess(self.tables, self._bytes, devices, self._work)), step)

    def _prior(self) -> Floats:
        count = self.problem.devices
        first = np.unique(self.unit, return_index=True)[1]
        allowed = common_devices(self.problem)[first]
        found = np.full((self.units, count), np.log(STRAY / max(1, count - 1)))
        found[np.arange(self.units), self.split[first]] = np.log1p(-STRAY)
        return np.where(allowed, found, NEVER_DRAWN)

    def _own(self) -> Floats:
        """[n, columns behind those of all families]."""
        problem, n = self.problem, self.graph.n
        sends = mean_sends(problem).astype(np.float64)
        sending = np.zeros(n)
        np.add.at(sending, problem.storages.producer, sends)
        work = max(1.0, float(self.graph.work.sum()))
        place = (self.split + 0.5) / problem.devices
        bounded = problem.instance.task.memory != "none" and bool((problem.memory > 0).all())
        held = float(problem.weights.sum() + problem.storages.bytes.sum())
        shares = (
            1 / problem.devices,
            sends.sum() / (sends.sum() + work),
            min(1.0, held / problem.memory.sum()) if bounded else 0.0,
        )
        cosines = np.cos(np.pi * place[:, None] * np.arange(1, HOMES + 1))
        return np.column_stack((np.log1p(n * sending / work), cosines, np.tile(shares, (n, 1))))


def _units(problem: PlacementProblem, graph: Graph, split: IntArray) -> IntArray:
    """The unit of each operation [n], by numbers from 0."""
    storages, allowed = problem.storages, common_devices(problem)
    u, v, size = storages.sources, storages.readers, storages.bytes[storages.read]
    alike = (split[u] == split[v]) & (allowed[u] == allowed[v]).all(axis=1)
    order = np.argsort(-size[alike], kind="stable")
    work = graph.work.astype(np.int64)
    root = joined(problem.group, u[alike][order], v[alike][order], work, int(work.sum()) // (PIECES * problem.devices))
    found: IntArray = np.unique(root, return_inverse=True)[1].astype(np.int64)
    return found
