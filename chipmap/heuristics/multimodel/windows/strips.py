"""A good single window on a module of many chiplets: models side by side along one long path through all of them.

Sets of chiplets are too many there. But let every model take consecutive chiplets of one simple path, in either
direction. Then a program over the path's positions and the models that are placed so far finds the best window, with
the tables' energies for each interval and each length T of the window. Several paths are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.tables.kernel import NONE, FloatArray
from chipmap.heuristics.multimodel.tables.paths import Paths, paths_of, types_of
from chipmap.heuristics.multimodel.windows.one_window import Limits, OneWindow, Part, geometric
from chipmap.instances.multimodel.problem import IntArray, MultiProblem, Segment

#: Widths of the cells of windows, round by round; cells of each round in which a window is looked for.
RATIOS, TRIED = (0.08, 0.03), 6
#: Models up to which sets of them are listed.
MOST_MODELS = 8
#: Most chiplets of one model.
LONGEST = 12


def long_paths(problem: MultiProblem) -> list[tuple[int, ...]]:
    """Simple paths that visit many chiplets: rows or columns of a grid to and fro, and greedy walks.

    A walk goes on to the neighbour with the fewest free neighbours (Warnsdorff's rule). The longest paths are kept.
    """
    chiplets = problem.instance.module.chiplets
    found = []
    for line, along in (("y", "x"), ("x", "y")):
        rows: dict[int, list[int]] = {}
        for c, chiplet in enumerate(chiplets):
            rows.setdefault(getattr(chiplet, line), []).append(c)
        order: list[int] = []
        for i, (_, row) in enumerate(sorted(rows.items())):
            order += sorted(row, key=lambda c: getattr(chiplets[c], along), reverse=i % 2 == 1)
        if all(b in problem.neighbours[a] for a, b in pairwise(order)):
            found.append(tuple(order))
    for start in range(len(chiplets)):
        path = [start]
        while free := [c for c in problem.neighbours[path[-1]] if c not in path]:
            path.append(min(free, key=lambda c: (len(set(problem.neighbours[c]) - set(path)), c)))
        found.append(tuple(path))
    most = max(map(len, found))
    return list(dict.fromkeys(path for path in found if len(path) == most))[:4]


class Strip:
    """One window along one path, for models whole."""

    def __init__(self, problem: MultiProblem, order: Sequence[int], limits: Limits, longest: int = LONGEST) -> None:
        self.problem, self.order = problem, tuple(order)
        self.parts: list[Part] = [(m, 0, model.layers - 1) for m, model in enumerate(problem.models)]
        types = types_of(problem)
        count = len(self.order)
        found: dict[tuple[int, ...], dict[tuple[int, int], tuple[int, ...]]] = {}
        for a in range(count):
            for b in range(a + 1, min(count, a + longest) + 1):
                way = self.order[a:b]
                for path in (way, way[::-1]):
                    found.setdefault(tuple(int(types[c]) for c in path), {})[a, b] = path
        self.signatures = sorted(found, key=lambda signature: (len(signature), signature))
        self.ways = [found[signature] for signature in self.signatures]
        # every signature is a set of its own: intervals take the place of sets
        self.paths: Paths = paths_of(types, self.signatures)
        self.program = OneWindow(problem, self.paths, self.parts, limits=limits)

    def run(self, best: int | None, deadline: Deadline) -> Iterator[list[Segment]]:
        """Windows better than ``best``, one by one."""
        program = self.program
        program.best = best
        low, high = program.low, program.latest(program.low, int(min(program.high, program.limits.time)))
        for ratio in RATIOS:
            if high <= low:
                return
            edges = geometric(low - 1, high, ratio)
            tables = [program.table(p, edges, ratio, deadline) for p in range(len(self.parts))]
            kept, chosen = self._beside(tables)
            energy = kept[-1][-1]
            values = [
                (program.value(int(edges[t + 1]), int(energy[t])), t)
                for t in range(len(energy))
                if energy[t] < NONE / 2
            ]
            tried = sorted(values)[:TRIED]
            for _, t in tried:
                deadline.check()
                segments = self._window(tables, kept, chosen, t, int(edges[t + 1]))
                if segments is not None:
                    yield segments
            if not tried:
                return
            cells = [t for _, t in tried]
            low, high = int(edges[min(cells)]) + 1, int(edges[max(cells) + 1])

    def _beside(self, tables: list[FloatArray]) -> tuple[list[list[FloatArray]], list[list[IntArray]]]:
        """kept[position][set of models] is the least energy by cell with the first positions of the path.

        ``chosen`` says how: −1 where the last position is free, else (start · models + model)."""
        models, cells, count = len(tables), tables[0].shape[1], len(self.order)
        least = np.full((models, count + 1, count + 1, cells), NONE)
        for s, ways in enumerate(self.ways):
            for a, b in ways:
                for m, table in enumerate(tables):
                    np.minimum(least[m, a, b], table[s], out=least[m, a, b])
        kept = [[np.zeros(cells) if not group else np.full(cells, NONE) for group in range(1 << models)]]
        chosen = [[np.full(cells, -1) for _ in range(1 << models)]]
        for b in range(1, count + 1):
            row, how = [one.copy() for one in kept[-1]], [np.full(cells, -1) for _ in range(1 << models)]
            for a in range(b):
                for m in range(models):
                    if (least[m, a, b] >= NONE / 2).all():
                        continue
                    for group in range(1 << models):
                        if group >> m & 1:
                            total = kept[a][group ^ (1 << m)] + least[m, a, b]
                            better = total < row[group]
                            row[group][better] = total[better]
                            how[group][better] = a * models + m
            kept.append(row)
            chosen.append(how)
        return kept, chosen

    def _window(
        self,
        tables: list[FloatArray],
        kept: list[list[FloatArray]],
        chosen: list[list[IntArray]],
        t: int,
        latest: int,
    ) -> list[Segment] | None:
        """A real window where cell t says that one may be."""
        models, b, group = len(tables), len(self.order), len(kept[0]) - 1
        segments, time, energy = list[Segment](), 0, 0
        while group:
            how = int(chosen[b][group][t])
            if how < 0:
                b -= 1
                continue
            a, m = divmod(how, models)
            ways = [(float(tables[m][s, t]), s) for s, own in enumerate(self.ways) if (a, b) in own]
            hoped, s = min(ways)
            found = self.program.real(m, s, latest, hoped)
            if found is None:
                return None
            segments += self.program.segments(m, found, self.ways[s][a, b])
            time, energy = max(time, found.latency), energy + found.energy
            b, group = a, group ^ (1 << m)
        return self.program.accept(segments, time, energy)
