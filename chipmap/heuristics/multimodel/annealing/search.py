"""Schedules by simulated annealing: segments change cuts and chiplets, paths grow and shrink, ranges change windows.

Every state obeys C0 to C3 and C5; limits (C4) are a penalty. The moves are compiled
(:mod:`chipmap.heuristics.multimodel.annealing.moves`), the clock is asked between chunks of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.annealing.moves import anneal
from chipmap.heuristics.multimodel.annealing.state import OBJECTIVES, SLOTS, ScheduleState, Slots, Tables, worth
from chipmap.instances.multimodel.problem import (
    UNLIMITED,
    IntArray,
    ModelCosts,
    MultiProblem,
    Segment,
    energy,
    latency,
    sums,
    watts,
)
from chipmap.kernels.annealing import seeded, temperature

#: All latencies together count beside T1, this often times the temperature: a window is as long as its slowest model,
#: so that others could change at no cost.
BLUR = 7.0
#: Moves between two looks at the clock: about 20 ms.
CHUNK = 20_000
#: Shares of the moves: cut, grow, place, rewalk, shift, reoptimise, detour, swap_empty_window.
SHARES = (0.32, 0.1, 0.14, 0.07, 0.24, 0.05, 0.06, 0.02)

Windows = list[list[Segment]]


class Annealing:
    """A search from a start; :meth:`run` yields each schedule that is better than all before."""

    def __init__(self, problem: MultiProblem, windows: Sequence[Sequence[Segment]], seed: int) -> None:
        self.tables, self.room = tables(problem), _room(problem, seed)
        self.state, self.best = state(problem, windows), state(problem, windows)
        self.state.value[0] = worth(self.tables, self.state, self.room, *self.state.totals[:2])
        self.best.value[:] = self.state.value

    def run(self, moves: int, deadline: Deadline, hot: float = 0.1, cold: float = 1e-4) -> Iterator[Windows]:
        """Anneal for so many moves, or until the deadline, from temperature ``hot`` to ``cold``."""
        done = 0
        while done < moves and deadline.keep_going():
            known, chunk = self.best.value[0], min(CHUNK, moves - done)
            first, last = (temperature(hot, cold, part / moves) for part in (done, done + chunk))
            anneal(self.tables, self.state, self.best, self.room, chunk, first, last, BLUR * first)
            done += chunk
            if self.best.value[0] < known:
                yield segments(self.best)


def tables(problem: MultiProblem) -> Tables:
    """The instance as the moves want it."""
    models, task = problem.models, problem.instance.task

    def rows(pick: Callable[[ModelCosts], IntArray], summed: bool) -> IntArray:
        """What ``pick`` gives of all models, with a row more for each; ``summed``: over the layers before a row."""
        found = [pick(model) for model in models]
        all_rows = np.concatenate([sums(own) if summed else np.append(own, 0 * own[:1], axis=0) for own in found])
        return np.ascontiguousarray(all_rows)  # for another layout the annealing would be compiled again

    need, size = [rows(lambda model: model.need, summed=False)], 1
    while 2 * size <= max(model.layers for model in models):
        behind = np.concatenate([need[-1][size:], np.zeros(size, dtype=np.int64)])
        need, size = [*need, np.maximum(need[-1], behind)], 2 * size
    near = np.zeros((problem.chiplets, max(1, *(len(own) for own in problem.neighbours))), dtype=np.int64)
    linked = np.zeros((problem.chiplets, problem.chiplets), dtype=np.bool_)
    for c, own in enumerate(problem.neighbours):
        near[c, : len(own)], linked[c, list(own)] = own, True
    limits = [np.inf if limit is None else max(1, limit) for limit in (task.latency_limit_ns, task.energy_limit_pj)]
    deadlines = [-1 if model.deadline_ns is None else model.deadline_ns for model in problem.instance.models]
    limited = min(limits) < np.inf or max(deadlines) >= 0
    sharing = problem.sharing
    shared = (sharing.dram, sharing.link) if sharing is not None else (None, None)
    rates = [problem.power / 1000, *(0.0 if rate is None else float(rate) for rate in shared)]
    asked = [OBJECTIVES.index(task.objective), watts(problem.instance) / 1000, *limits]
    return Tables(
        base=np.cumsum([0, *(model.layers + 1 for model in models[:-1])]).astype(np.int64),
        rounds=np.array([model.q - 1 for model in models]),
        deadline=np.array(deadlines),
        time=rows(lambda model: model.time, summed=True),
        energy=rows(lambda model: model.run_energy, summed=True),
        read_time=rows(lambda model: model.read_time, summed=False),
        read_energy=rows(lambda model: model.read_energy, summed=False),
        write_time=rows(lambda model: model.write_time, summed=False),
        write_energy=rows(lambda model: model.write_energy, summed=False),
        send_time=rows(lambda model: model.send_time, summed=False),
        send_energy=rows(lambda model: model.send_energy, summed=False),
        weight_time=rows(lambda model: model.weight_time, summed=True),
        weights=rows(lambda model: model.weights, summed=True),
        need=np.array(need),
        sram=problem.sram,
        linked=linked,
        near=near,
        degree=np.array([len(own) for own in problem.neighbours]),
        task=np.array([*asked, problem.both_ends, limited, problem.sram.min() < UNLIMITED, *rates], dtype=np.float64),
        shares=np.cumsum(SHARES),
        **shared_tables(problem),
    )


def shared_tables(problem: MultiProblem) -> dict[str, IntArray]:
    """The tables of what chiplets share; empty ones where they share nothing."""
    sharing, chiplets = problem.sharing, problem.chiplets
    if sharing is None:
        none, nowhere = np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
        return {"read": none, "sent": none, "ways": np.zeros((2, 1, 1), dtype=np.int64), "channel": nowhere}
    behind = np.zeros(1, dtype=np.int64)
    read, sent = (
        np.concatenate([part for one in own for part in (one, behind)]) for own in (sharing.read, sharing.sent)
    )
    most = max(len(way) for way in sharing.reads)
    ways = np.full((2, chiplets, most), -1, dtype=np.int64)
    for x, own in enumerate((sharing.reads, sharing.writes)):
        for c, way in enumerate(own):
            ways[x, c, : len(way)] = way
    channel = np.full((chiplets, chiplets), sharing.channels, dtype=np.int64)
    for (a, b), number in sharing.channel.items():
        channel[a, b] = number
    return {"read": read, "sent": sent, "ways": ways, "channel": channel}


def state(problem: MultiProblem, windows: Sequence[Sequence[Segment]]) -> ScheduleState:
    """A schedule that obeys C0 to C3 and C5 as arrays; its value isn't filled in."""
    most, models, chiplets = problem.windows, len(problem.models), problem.chiplets
    small, large = (most, models), (most, models, chiplets)
    shapes: list[Any] = [small, small, large, large, (most, chiplets), small, small, most, most, 3]
    made = ScheduleState._make([*(np.zeros(shape, dtype=np.int64) for shape in shapes), np.zeros(1)])
    made.owner[:] = -1
    done = [0] * models
    for w in range(most):
        for m in range(models):
            own = sorted(one for one in windows[w] if one[0] == m) if w < len(windows) else []
            made.first[w, m], made.size[w, m] = done[m], len(own)
            for j, (_, _, last, c) in enumerate(own):
                made.end[w, m, j], made.chip[w, m, j], made.owner[w, c] = last + 1, c, m
                done[m] = last + 1
            if own:
                made.latency[w, m], made.energy[w, m] = latency(problem, own), energy(problem, own)
        if problem.sharing is not None and w < len(windows):
            made.shared[w] = problem.sharing.time(windows[w])
    made.longest[:] = np.maximum(made.latency.max(axis=1), made.shared)
    made.totals[:] = made.longest.sum(), made.energy.sum(), made.latency.sum()
    return made


def _room(problem: MultiProblem, seed: int) -> Slots:
    """Room for the moves to work in."""
    models, chiplets = len(problem.models), problem.chiplets
    small, large = (problem.windows, models), (SLOTS, chiplets)
    shapes: list[Any] = [1, *8 * [SLOTS], large, large, 3, 1, (problem.windows, chiplets), small, small]
    width = max(model.layers for model in problem.models) + 2
    channels = problem.sharing.channels + 1 if problem.sharing is not None else 1
    rows = np.zeros((2, width)), np.zeros((chiplets, width), dtype=np.int64), np.zeros(channels, dtype=np.int64)
    focus = np.array([0, problem.windows])
    return Slots._make([*(np.zeros(shape, dtype=np.int64) for shape in shapes), seeded(seed), *rows, focus])


def segments(made: ScheduleState) -> Windows:
    """The windows of segments that a state stands for."""
    found: Windows = []
    for w in range(len(made.longest)):
        window: list[Segment] = []
        for m in range(made.first.shape[1]):
            ends = [int(made.first[w, m]), *(int(b) for b in made.end[w, m, : made.size[w, m]])]
            chips = made.chip[w, m, : made.size[w, m]]
            window += [(m, a, b - 1, int(c)) for a, b, c in zip(ends, ends[1:], chips, strict=False)]
        found.append(window)
    return found
