"""The least energy: a forward program over layers and paths for each model, then models into windows.

Energy is a sum over models, so that the sum of what each needs with all windows and chiplets to itself is a bound
(:meth:`Energy.bound`). A schedule has that energy where models find windows of their own, or chiplets side by side
(:meth:`Energy.schedule`): then it is optimal. The program leaves out C5, so that a schedule may break it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.multimodel.problem import IntArray, ModelCosts, MultiProblem, Segment

#: Sets of chiplets with a last one, up to which paths are simple; above, a path may come back to a chiplet (a bound).
MOST_STATES = 5_000
#: Orders of the models that are tried.
ORDERS = 24
#: Above every energy (below 2⁶² in sum).
FAR = 2**62


class Energy:
    """The program of one problem. A state of a path: the set of its chiplets (bits) and the last one."""

    def __init__(self, problem: MultiProblem) -> None:
        self.problem = problem
        states = _states(problem)
        self.simple = states is not None
        self.states = states or [(0, c) for c in range(problem.chiplets)]
        at = {state: i for i, state in enumerate(self.states)}
        moves = [
            (i, at[mask | (1 << near) if self.simple else 0, near])
            for i, (mask, c) in enumerate(self.states)
            for near in problem.neighbours[c]
            if not (mask >> near) & 1
        ]
        moves.sort(key=lambda move: move[1])
        self.source = np.array([i for i, _ in moves], dtype=np.int64)
        #: States that a move leads to, and where each one's moves begin in ``source``.
        self.target, self.begins = np.unique(np.array([j for _, j in moves], dtype=np.int64), return_index=True)
        self.chip = np.array([c for _, c in self.states])
        self.alone = np.array([mask.bit_count() <= 1 for mask, _ in self.states])
        everywhere = [(1 << problem.chiplets) - 1] * problem.windows
        #: Energies are counted in 1 / scale pJ and each segment as 1: of equal ones, those with few segments are taken.
        self.scale = 1 + min(max(model.layers for model in problem.models), problem.windows * problem.chiplets)
        self.scale = self.scale if problem.most_energy < FAR // (2 * self.scale) else 1
        self.models = [self._windows(costs, everywhere) for costs in problem.models]

    @property
    def bound(self) -> int:
        """A lower bound on T2 in pJ."""
        return sum(int(done[-1][-1]) // self.scale for done, _ in self.models)

    def schedule(self) -> list[list[Segment]] | None:
        """The best schedule of some orders of the models; None where paths aren't simple, or no order finds places.

        Each model takes its least energy on the chiplets that those before it leave free.
        """
        best: tuple[int, list[list[Segment]]] | None = None
        # those that gain by a window more come first
        first = sorted(range(len(self.models)), key=lambda m: int(self.models[m][0][-1][-1] - self.models[m][0][1][-1]))
        for order in islice(permutations(first), ORDERS if self.simple else 0):
            free = [(1 << self.problem.chiplets) - 1] * self.problem.windows
            windows: list[list[Segment]] = [[] for _ in free]
            total = 0
            for m in order:
                done, rows = self._windows(self.problem.models[m], free)
                total += int(done[-1][-1]) // self.scale
                if done[-1][-1] >= FAR or (best is not None and total >= best[0]):
                    break
                for w, own in self._back(m, done, rows):
                    windows[w] += own
                    free[w] -= sum(1 << c for _, _, _, c in own)
            else:
                best = total, windows
            if best is not None and best[0] == self.bound:
                break
        return None if best is None else best[1]

    def _windows(
        self, costs: ModelCosts, free: Sequence[int]
    ) -> tuple[list[IntArray], list[tuple[IntArray, IntArray]]]:
        """The least energies of a model's first layers in so many windows, and the rows of each window's program.

        ``free``: the chiplets of each window that it may use, as bits.

        ``done``[w][l]: of the layers before l in w windows. Rows of window w: [layer, state] energies up to a layer,
        and those with which a segment begins at it.
        """
        done = [np.full(costs.layers + 1, FAR)]
        done[0][0] = 0
        rows: list[tuple[IntArray, IntArray]] = []
        for w, chiplets in enumerate(free):
            if w and chiplets == free[w - 1] and (done[w] == done[w - 1]).all():
                rows.append(rows[-1])
            else:
                shut = np.array([mask & ~chiplets != 0 for mask, _ in self.states])
                rows.append(self._paths(costs, done[w], shut))
            ends = (rows[-1][0] + self.scale * costs.write_energy[:, self.chip]).min(axis=1)
            done.append(np.minimum(done[w], np.concatenate([[FAR], np.minimum(ends, FAR)])))
        return done, rows

    def _paths(self, costs: ModelCosts, before: IntArray, shut: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
        """One window's program from energies ``before`` it, without the states that are ``shut``."""
        layer = self.scale * (costs.energy + costs.weight_energy)[:, self.chip]
        one = int(self.scale > 1)
        upto = np.full((costs.layers, len(self.chip)), FAR)
        begun, last = upto.copy(), upto[0]
        for k in range(costs.layers):
            if k and len(self.source):
                moved = np.minimum.reduceat(last[self.source], self.begins)
                begun[k, self.target] = moved + self.scale * costs.send_energy[k - 1] + one
            fresh = before[k] + self.scale * costs.read_energy[k, self.chip[self.alone]] + one
            begun[k, self.alone] = np.minimum(begun[k, self.alone], fresh)
            begun[k, shut] = FAR
            last = upto[k] = np.minimum(np.minimum(last, begun[k]) + layer[k], FAR)
        return upto, begun

    def _back(
        self, m: int, done: list[IntArray], rows: list[tuple[IntArray, IntArray]]
    ) -> Iterator[tuple[int, list[Segment]]]:
        """The windows, from the last one back, and segments that a model's least energy comes from."""
        costs = self.problem.models[m]
        end = costs.layers
        for w in range(self.problem.windows - 1, -1, -1):
            if end == 0 or done[w + 1][end] == done[w][end]:
                continue
            (upto, begun), segments = rows[w], list[Segment]()
            k = last = end - 1
            state = int((upto[k] + self.scale * costs.write_energy[k, self.chip]).argmin())
            while True:
                while k and upto[k - 1, state] <= begun[k, state]:
                    k -= 1
                segments.append((m, k, last, int(self.chip[state])))
                fresh = done[w][k] + self.scale * costs.read_energy[k, self.chip[state]] + int(self.scale > 1)
                if self.alone[state] and begun[k, state] == fresh:
                    break
                i = int(np.searchsorted(self.target, state))
                sources = self.source[self.begins[i] : [*self.begins, len(self.source)][i + 1]]
                k = last = k - 1
                state = int(sources[upto[k, sources].argmin()])
            yield w, segments[::-1]
            end = k


def _states(problem: MultiProblem) -> list[tuple[int, int]] | None:
    """All (set of chiplets, last one) of simple paths; None where these are too many."""
    found = [(1 << c, c) for c in range(problem.chiplets)]
    known = set(found)
    for mask, c in found:
        for near in problem.neighbours[c]:
            state = (mask | (1 << near), near)
            if not (mask >> near) & 1 and state not in known:
                known.add(state)
                found.append(state)
        if len(found) > MOST_STATES:
            return None
    return found
