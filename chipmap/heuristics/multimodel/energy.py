"""The least energy: a forward program over layers and paths for each model, then models into windows.

Energy is a sum over models, so that the sum of what each needs with all windows and chiplets to itself is a bound
(:meth:`Energy.bound`). A schedule has that energy where models find windows of their own, or chiplets side by side
(:meth:`Energy.schedule`): then it is optimal. The program leaves out C5, so that a schedule may break it.
"""

from __future__ import annotations

import numpy as np

from chipmap.instances.multimodel.problem import IntArray, ModelCosts, MultiProblem, Segment

#: Sets of chiplets with a last one, up to which paths are simple; above, a path may come back to a chiplet (a bound).
MOST_STATES = 5_000
#: Models and chiplets up to which models are put side by side.
MOST_MODELS, MOST_CHIPLETS = 8, 10
#: Above every energy (below 2⁶² in sum).
FAR = 2**62


class Energy:
    """The program of one problem. A state of a path: the set of its chiplets (bits) and the last one."""

    def __init__(self, problem: MultiProblem) -> None:
        self.problem = problem
        self.states = _states(problem)
        self.simple = self.states is not None
        if self.states is None:
            self.states = [(0, c) for c in range(problem.chiplets)]
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
        self.models = [self._windows(costs) for costs in problem.models]

    @property
    def bound(self) -> int:
        """A lower bound on T2 in pJ."""
        return sum(int(done[-1][-1]) for done, _ in self.models)

    def schedule(self) -> list[list[Segment]] | None:
        """A schedule of little energy; None where paths aren't simple, or models don't find windows."""
        if not self.simple or self.problem.chiplets > MOST_CHIPLETS or len(self.models) > MOST_MODELS:
            return None
        count, windows = len(self.models), self.problem.windows
        together = self._together()
        # least[w][models]: the least energy of these in w windows, with the step that led there
        steps = [(1 << m, w, int(self.models[m][0][w][-1])) for m in range(count) for w in range(1, windows + 1)]
        steps += [(group, 1, cost) for group, (cost, _) in together.items() if group & (group - 1)]
        least: list[dict[int, tuple[int, tuple[int, int] | None]]] = [{} for _ in range(windows + 1)]
        least[0][0] = (0, None)
        for w in range(windows + 1):
            for group, more, cost in steps:
                for have, (total, _) in list(least[w].items()) if w + more <= windows else []:
                    found = least[w + more].get(have | group)
                    if not have & group and cost < FAR and (found is None or total + cost < found[0]):
                        least[w + more][have | group] = (total + cost, (group, more))
        everyone = (1 << count) - 1
        ends = [(row[everyone][0], w) for w, row in enumerate(least) if everyone in row]
        if not ends:
            return None
        w, left, schedule = min(ends)[1], everyone, list[list[Segment]]()
        while left:
            step = least[w][left][1]
            assert step is not None
            group, more = step
            if group & (group - 1):
                schedule.append([s for m, mask in together[group][1] for s in self._back(m, 1, mask)[0]])
            else:
                schedule += self._back(group.bit_length() - 1, more, None)
            left, w = left ^ group, w - more
        return schedule

    def _windows(self, costs: ModelCosts) -> tuple[list[IntArray], list[tuple[IntArray, IntArray]]]:
        """The least energies of a model's first layers in so many windows, and the rows of each window's program.

        ``done``[w][l]: of the layers before l in w windows. Rows of window w: [layer, state] energies up to a layer,
        and those with which a segment begins at it.
        """
        done = [np.full(costs.layers + 1, FAR)]
        done[0][0] = 0
        rows = []
        for w in range(self.problem.windows):
            rows.append(self._paths(costs, done[w]))
            ends = (rows[-1][0] + costs.write_energy[:, self.chip]).min(axis=1)
            done.append(np.minimum(done[w], np.concatenate([[FAR], np.minimum(ends, FAR)])))
        return done, rows

    def _paths(self, costs: ModelCosts, before: IntArray) -> tuple[IntArray, IntArray]:
        """One window's program from energies ``before`` it."""
        layer = (costs.energy + costs.weight_energy)[:, self.chip]
        upto = np.full((costs.layers, len(self.chip)), FAR)
        begun, last = upto.copy(), upto[0]
        for k in range(costs.layers):
            if k and len(self.source):
                moved = np.minimum.reduceat(last[self.source], self.begins)
                begun[k, self.target] = moved + costs.send_energy[k - 1]
            fresh = before[k] + costs.read_energy[k, self.chip[self.alone]]
            begun[k, self.alone] = np.minimum(begun[k, self.alone], fresh)
            last = upto[k] = np.minimum(np.minimum(last, begun[k]) + layer[k], FAR)
        return upto, begun

    def _together(self) -> dict[int, tuple[int, list[tuple[int, int]]]]:
        """For each set of models in one window: the least energy, and each one's chiplets as a set."""
        size, places = 1 << self.problem.chiplets, len(self.models)
        masks = np.array([mask for mask, _ in self.states or []])
        found: dict[int, tuple[int, list[tuple[int, int]]]] = {}
        own = []
        for costs, (_, rows) in zip(self.problem.models, self.models, strict=True):
            ends = np.full(size, FAR)
            np.minimum.at(ends, masks, rows[0][0][-1] + costs.write_energy[-1, self.chip])
            own.append([int(value) for value in ends])
        useful = [[mask for mask in range(1, size) if _minimal(values, mask)] for values in own]
        # table[models][chiplets]: their least energy on exactly these, with each one's own
        table: dict[int, dict[int, tuple[int, list[tuple[int, int]]]]] = {0: {0: (0, [])}}
        for group in range(1, 1 << places):
            m = group.bit_length() - 1
            row: dict[int, tuple[int, list[tuple[int, int]]]] = {}
            for have, (cost, who) in table[group ^ (1 << m)].items():
                for mask in useful[m]:
                    total = cost + own[m][mask]
                    if not have & mask and (have | mask not in row or total < row[have | mask][0]):
                        row[have | mask] = (total, [*who, (m, mask)])
            table[group] = row
            if row:
                found[group] = min(row.values())
        return found

    def _back(self, m: int, windows: int, mask: int | None) -> list[list[Segment]]:
        """The segments behind a model's least energy in so many windows; with ``mask``, in one window on these."""
        costs, (done, rows) = self.problem.models[m], self.models[m]
        found: list[list[Segment]] = []
        end = costs.layers
        for w in range(windows, 0, -1):
            if end == 0 or (mask is None and done[w][end] == done[w - 1][end]):
                continue
            upto, begun = rows[w - 1]
            allowed = np.array([mask is None or own == mask for own, _ in self.states or []])
            state = int(
                np.where(allowed, upto[end - 1] + costs.write_energy[end - 1, self.chip], FAR + FAR // 2).argmin()
            )
            segments, last, k = list[Segment](), end - 1, end - 1
            while True:
                if begun[k, state] > (upto[k - 1, state] if k else FAR):
                    k -= 1
                    continue
                segments.append((m, k, last, int(self.chip[state])))
                if self.alone[state] and begun[k, state] == done[w - 1][k] + costs.read_energy[k, self.chip[state]]:
                    break
                i = int(np.searchsorted(self.target, state))
                sources = self.source[self.begins[i] : [*self.begins, len(self.source)][i + 1]]
                k, last = k - 1, k - 1
                state = int(sources[upto[k, sources].argmin()])
            found.append(segments[::-1])
            end = k
        return found[::-1]


def _minimal(values: list[int], mask: int) -> bool:
    """Whether a path on these chiplets costs less than one on all of them but one."""
    return values[mask] < FAR and all(
        values[mask ^ (1 << c)] > values[mask] for c in range(mask.bit_length()) if (mask >> c) & 1
    )


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
