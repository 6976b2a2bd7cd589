"""CU.POKer's post refinement: fewer adapters by the room that rows leave above their kernels.

Every kernel keeps its slot (its width of the row, the row's height). First, floor by floor, reference pairs (h, w) are
tried on all kernels that can take them, with the most c that the slot allows; then the c of first and last convolutions
are annealed. Source: CU.POKer's slides, "Protocol Cost Optimization".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import TICKS, WaferProblem, least_ks, size
from chipmap.instances.wafer.shapes import centre
from chipmap.kernels.annealing import temperature

#: Moves of the annealing per kernel.
MOVES = 300
#: Ticks of an adapter where the weights give it none, so that fewer adapters break ties.
TIE = 1e-3
#: The first and the last temperature, in adapters.
HOT, COLD = 0.5, 0.02


class Slot(NamedTuple):
    """The room of a kernel: left end, width, floor and height of its row in tiles."""

    x: int
    width: int
    floor: int
    height: int


def slots(problem: WaferProblem, placements: Sequence[Placement]) -> list[Slot]:
    """The slots of kernels placed in rows, centred in them: each row spans the tallest kernels that overlap it."""
    rows: list[list[int]] = []
    for low, high in sorted((p.y, p.y + size(p)[1]) for p in placements):
        if rows and low < rows[-1][1]:
            rows[-1][1] = max(rows[-1][1], high)
        else:
            rows.append([low, high])
    found = []
    for p in placements:
        floor, top = next(row for row in rows if row[0] <= p.y < row[1])
        found.append(Slot(p.x, size(p)[0], floor, top - floor))
    return found


class Refiner:
    """The refinement of one row layout within ``tau`` quarters."""

    def __init__(self, problem: WaferProblem, placements: Sequence[Placement], tau: int) -> None:
        self.problem, self.tau = problem, tau
        self.now = list(placements)
        self.slots = slots(problem, placements)
        self.edges = [tuple(edge) for edge in problem.edges.tolist()]
        self.touching: list[list[int]] = [[] for _ in range(problem.n)]
        for e, (u, v) in enumerate(self.edges):
            self.touching[u].append(e)
            self.touching[v].append(e)
        weights = problem.instance.weights
        self.ticks = 2.0 * weights.wire, max(TIE, TICKS * weights.adapter)
        self.centres = [centre(p) for p in self.now]
        self._fitted: dict[tuple[int, int, int, int, int], Placement | None] = {}

    def _edge(self, e: int) -> float:
        u, v = self.edges[e]
        a, b = self.now[u], self.now[v]
        out = a.c[-1] if self.problem.instance.protocol == "c_n" else min(a.c[-1], a.k[-1])
        adapters = (a.h != b.h) + (a.w != b.w) + (out != b.c[0])
        (x, y), (s, t) = self.centres[u], self.centres[v]
        return self.ticks[0] * (abs(x - s) + abs(y - t)) + self.ticks[1] * adapters

    def cost(self, kernels: Sequence[int]) -> float:
        """Ticks of the edges at ``kernels``."""
        return sum(map(self._edge, {e for i in kernels for e in self.touching[i]}))

    def fitted(self, i: int, h: int, w: int, ends: tuple[int, int] = (0, 0)) -> Placement | None:
        """Kernel ``i`` with (h, w) and the most c in its slot, upright if it can be, else lying; None if neither.

        ``ends`` are c of the first and last convolution, 0 for the most.
        """
        key = (i, h, w, *ends)
        if key not in self._fitted:
            self._fitted[key] = self._fit(*key)
        return self._fitted[key]

    def _fit(self, i: int, h: int, w: int, first: int, last: int) -> Placement | None:
        slot, convs = self.slots[i], self.problem.type_arrays[int(self.problem.types[i])]
        for lying, side, across in ((False, slot.height, slot.width), (True, slot.width, slot.height)):
            most = side // (h * w) - 1
            if most < 1 or max(first, last) > most or (len(convs) == 1 and first != last):
                continue
            cs = [most] * len(convs)
            cs[0] = first or cs[0]
            cs[-1] = last or cs[-1]
            ks = least_ks(convs, h, w, cs, self.tau, self.problem.memory)
            if ks is not None and 3 * sum(ks) <= across:
                name = self.problem.names[i]
                p = Placement(kernel=name, h=h, w=w, c=tuple(cs), k=ks, x=slot.x, y=slot.floor, rotated=lying)
                width, height = size(p)
                return p.replace(x=slot.x + (slot.width - width) // 2, y=slot.floor + (slot.height - height) // 2)
        return None

    def put(self, i: int, p: Placement) -> Placement:
        """Replace the placement of kernel ``i``; returns the old one."""
        old = self.now[i]
        self.now[i], self.centres[i] = p, centre(p)
        return old

    def unify(self, deadline: Deadline) -> None:
        """Floor by floor, commit the reference pair of one of its kernels that lowers the cost most."""
        floors: dict[int, list[int]] = {}
        for i, slot in enumerate(self.slots):
            floors.setdefault(slot.floor, []).append(i)
        for kernels in floors.values():
            deadline.check()
            pairs = sorted({(self.now[i].h, self.now[i].w) for i in kernels})
            gain, pair = min((self._try(kernels, pair), pair) for pair in pairs)
            if gain < -1e-9:
                self._apply(kernels, pair)

    def _apply(self, kernels: list[int], pair: tuple[int, int]) -> list[tuple[int, Placement]]:
        return [(i, self.put(i, p)) for i in kernels if (p := self.fitted(i, *pair)) is not None]

    def _try(self, kernels: list[int], pair: tuple[int, int]) -> float:
        before = self.cost(kernels)
        old = self._apply(kernels, pair)
        after = self.cost(kernels)
        for i, p in old:
            self.put(i, p)
        return after - before

    def anneal(self, seed: int, deadline: Deadline) -> None:
        """Anneal c of first and last convolutions towards those of neighbours; the best state stays."""
        rng = np.random.default_rng(seed)
        steps = MOVES * self.problem.n
        draws = rng.random((steps, 4))
        hot, cold = HOT * self.ticks[1], COLD * self.ticks[1]
        best, best_at, now = list(self.now), 0.0, 0.0
        for step in range(steps):
            if step % 1000 == 0:
                deadline.check()
            i = int(draws[step, 0] * self.problem.n)
            p = self._neighbour(i, draws[step, 1], draws[step, 2])
            if p is None or p == self.now[i]:
                continue
            before = self.cost([i])
            old = self.put(i, p)
            change = self.cost([i]) - before
            if change > 0 and draws[step, 3] >= exp(-change / temperature.py_func(hot, cold, step / steps)):
                self.put(i, old)
                continue
            now += change
            if now < best_at - 1e-9:
                best, best_at = list(self.now), now
        for i, p in enumerate(best):
            self.put(i, p)

    def _neighbour(self, i: int, which: float, end: float) -> Placement | None:
        """Kernel ``i`` with c of its first or last convolution taken from a neighbour, or with the most c."""
        p = self.now[i]
        first, last = p.c[0], p.c[-1]
        choices = [0] + [
            self.now[v if u == i else u].c[0 if u == i else -1] for u, v in (self.edges[e] for e in self.touching[i])
        ]
        c = choices[int(which * len(choices))]
        if len(p.c) == 1:
            return self.fitted(i, p.h, p.w, (c, c))
        return self.fitted(i, p.h, p.w, (c, last) if end < 0.5 else (first, c))


def refine(
    problem: WaferProblem, placements: Sequence[Placement], tau: int, seed: int | None, deadline: Deadline
) -> list[Placement]:
    """``placements`` (in rows) with unified pairs, each kernel within ``tau`` quarters and its slot.

    With a ``seed`` the c are annealed, too.
    """
    refiner = Refiner(problem, placements, tau)
    refiner.unify(deadline)
    if seed is not None:
        refiner.anneal(seed, deadline)
    return refiner.now
