"""The objective of many mappings at once (numba): what a search by samples asks for most.

The formulas are those of :mod:`chipmap.instances.ring.problem`, with which tests compare them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.ring.incidence import incidence
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.kernels import njit

#: The value of a mapping that breaks C4, where C4 is in force.
INVALID = 2**62
MODES = {"period": 0, "sum": 1, "sum_forward": 2}


class Tables(NamedTuple):
    """A problem as arrays: per operation its time and weights [n]; per storage (maker, ticks, bytes) [s, 3] and its
    readers[at[s]:at[s + 1]]; ``events`` [2s, 2]: (storage, 1 where it is made, 0 after its last reader) in topological
    order; the bytes of shared ``constants`` [k], read by users[users_at[k]:users_at[k + 1]].

    ``sram``: -1 where C4 is not in force; ``full``: its grade is ``full``.
    """

    mode: int
    sram: int
    full: bool
    ticks: Any
    weights: Any
    storages: Any
    at: Any
    readers: Any
    events: Any
    constants: Any
    users_at: Any
    users: Any


class Room(NamedTuple):
    """Scratch: per chip its work, memory, live bytes and last visitor [C], load [C + 1]; per storage ``inner`` [s]."""

    work: Any
    load: Any
    memory: Any
    live: Any
    seen: Any
    inner: Any


class Evaluator:
    """Objectives in ticks of mappings of ``problem`` (one with C1), made ready once."""

    def __init__(self, problem: RingProblem) -> None:
        self.problem = problem
        storages, chips, on = problem.storages, problem.chips, incidence(problem, range(problem.n))
        rank = {v: 2 * i for i, v in enumerate(problem.order)}
        made = [(rank[s.producer], i, 1) for i, s in enumerate(storages)]
        freed = [(max(rank[v] for v in s.readers) + 1, i, 0) for i, s in enumerate(storages)]
        self._tables = Tables(
            mode=MODES[problem.cost_mode],
            sram=problem.sram_bytes if problem.has("C4") else -1,
            full=problem.full_memory,
            ticks=problem.ticks,
            weights=problem.weight_bytes,
            storages=np.stack((on.producer, on.ticks, on.bytes), axis=1),
            at=on.readers.first,
            readers=on.readers.items,
            events=np.array(sorted(made + freed), dtype=np.int64).reshape(-1, 3)[:, 1:].copy(),
            constants=on.shared_bytes,
            users_at=on.shared_readers.first,
            users=on.shared_readers.items,
        )
        self._room = Room(
            work=np.zeros(chips, dtype=np.int64),
            load=np.zeros(chips + 1, dtype=np.int64),
            memory=np.zeros(chips, dtype=np.int64),
            live=np.zeros(chips, dtype=np.int64),
            seen=np.zeros(chips, dtype=np.int64),
            inner=np.zeros(len(storages), dtype=np.bool_),
        )

    def __call__(self, chips: NDArray[np.integer]) -> IntArray:
        """[k] objectives of the mappings ``chips`` [k, n]; :data:`INVALID` for those that break C4."""
        values: IntArray = _evaluate(np.ascontiguousarray(chips, dtype=np.int64), self._tables, self._room)
        return values


@njit(cache=True)
def _evaluate(mappings: Any, tables: Tables, room: Room) -> Any:
    values = np.zeros(len(mappings), dtype=np.int64)
    for i in range(len(mappings)):
        f = mappings[i]
        room.work[:] = 0
        room.memory[:] = 0
        for v in range(len(f)):
            room.work[f[v]] += tables.ticks[v]
            room.memory[f[v]] += tables.weights[v]
        _constants(f, tables, room)
        _transfers(f, tables, room)
        if tables.full:
            _live(f, tables, room)
        values[i] = _worst(room.work, room.load, room.memory, tables.mode, tables.sram)
    return values


@njit(part=True)
def _constants(f: Any, tables: Tables, room: Room) -> None:
    """Each shared constant, once on each chip that reads it."""
    memory, seen = room.memory, room.seen
    seen[:] = -1
    for s in range(len(tables.constants)):
        for r in range(tables.users_at[s], tables.users_at[s + 1]):
            c = f[tables.users[r]]
            if seen[c] != s:
                seen[c] = s
                memory[c] += tables.constants[s]


@njit(part=True)
def _transfers(f: Any, tables: Tables, room: Room) -> None:
    """Links (as differences between them), boundary and relay buffers, and in mode ``sum`` the chips' transfers."""
    work, load, memory, seen = room.work, room.load, room.memory, room.seen
    load[:] = 0
    seen[:] = -1
    for s in range(len(tables.storages)):
        home, time, size = f[tables.storages[s, 0]], tables.storages[s, 1], tables.storages[s, 2]
        far = home
        seen[home] = s
        for r in range(tables.at[s], tables.at[s + 1]):
            c = f[tables.readers[r]]
            if seen[c] != s:
                seen[c] = s
                memory[c] += 2 * size
                far = max(far, c)
                if tables.mode == 1:
                    work[c] += time
        room.inner[s] = far == home
        if far != home:
            memory[home] += 2 * size
            load[home] += time
            load[far] -= time
            if tables.mode == 1:
                work[home] += time
        if tables.full:
            for c in range(home + 1, far):
                memory[c] += 2 * size if seen[c] != s else 0


@njit(part=True)
def _live(f: Any, tables: Tables, room: Room) -> None:
    """The most bytes that storages made and read on one chip only take there at one step, added to its memory."""
    live, most = room.live, room.seen
    live[:] = 0
    most[:] = 0
    for e in range(len(tables.events)):
        s, made = tables.events[e, 0], tables.events[e, 1]
        if room.inner[s]:
            c, size = f[tables.storages[s, 0]], tables.storages[s, 2]
            live[c] += size if made else -size
            most[c] = max(most[c], live[c])
    for c in range(len(most)):
        room.memory[c] += most[c]


@njit(part=True)
def _worst(work: Any, load: Any, memory: Any, mode: int, sram: int) -> int:
    """The objective; ``load`` holds differences between links on entry."""
    worst, before = 0, 0
    for c in range(len(work)):
        if sram >= 0 and memory[c] > sram:
            return INVALID
        here = before + load[c]
        worst = max(worst, work[c] + before + here if mode == 2 else work[c])
        if mode == 0:
            worst = max(worst, here)
        before = here
    return worst
