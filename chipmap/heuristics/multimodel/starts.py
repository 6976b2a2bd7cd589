"""A start where a whole model fits on no chiplet's SRAM (C5), or models don't find places side by side.

Window after window, models take paths of free chiplets, and each chiplet takes as many layers as fit. A part of what
fits does so as well: for given chiplets nothing gets further. Which model goes first, and how many chiplets it may
take, is drawn again until all layers have a place. With ``grouped`` a layer goes where those that it shares a chiplet
with are, and not where those are that it is to be apart from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random

from chipmap.heuristics.multimodel.bounds import least_segments
from chipmap.instances.multimodel.instance import MAX_TOTAL
from chipmap.instances.multimodel.pinned import Layer, Pinned, pinned
from chipmap.instances.multimodel.problem import MultiProblem, Segment

#: Chiplets and the layers behind the last ones on them.
Path = Sequence[tuple[int, int]]
#: Tries, and paths looked at for a model in a window.
TRIES, PATHS = 100, 2_000


def packed(problem: MultiProblem, seed: int = 0, grouped: bool = False) -> list[list[Segment]] | None:
    """Windows that hold all layers; None where no try finds such."""
    random = Random(seed)
    asked = pinned(problem) if grouped else None
    for turn in range(TRIES):
        if not turn or asked is not None:  # what groups leave free depends on what stands already
            reach = _Reach(problem) if asked is None else _Grouped(problem, asked)
        windows = _attempt(problem, random, reach, greedy=turn % 2 == 0)
        if windows is not None:
            return windows
    return None


def _attempt(problem: MultiProblem, random: Random, reach: _Reach, greedy: bool) -> list[list[Segment]] | None:
    """One schedule: paths of shares of the chiplets, or with ``greedy`` as long as they go."""
    models, windows = range(len(problem.models)), list[list[Segment]]()
    done = [0] * len(problem.models)
    total = [least_segments(problem, model) for model in problem.models]
    for w in range(problem.windows):
        free, window = set(range(problem.chiplets)), list[Segment]()
        left = [m for m in models if done[m] < problem.models[m].layers]
        need = {m: -(-total[m] * (problem.models[m].layers - done[m]) // problem.models[m].layers) for m in left}
        for m in sorted(left, key=lambda m: -need[m] * (0.5 + random.random())):
            share = problem.chiplets if greedy else max(1, -(-need[m] // (problem.windows - w)) + random.randrange(2))
            path = reach.furthest(m, done[m], free, share, random)
            reach.take(m, done[m], path)
            for c, end in path:
                window.append((m, done[m], end - 1, c))
                done[m] = end
                free.remove(c)
        windows.append(window)
    return windows if all(done[m] == problem.models[m].layers for m in models) else None


class _Reach:
    """How far layers fit: by model, first layer and SRAM (with pins: chiplet) the layer behind the last one."""

    def __init__(self, problem: MultiProblem) -> None:
        self.problem = problem
        chiplets = problem.instance.module.chiplets
        self.sizes = [MAX_TOTAL if one.sram_bytes is None else one.sram_bytes for one in chiplets]
        self.costs = [(model.weights.tolist(), model.need.tolist()) for model in problem.models]
        self.known: dict[tuple[int, int, int], int] = {}

    def take(self, m: int, first: int, path: Path) -> None:
        """The layers from ``first`` on stand on a path."""

    def end(self, m: int, first: int, c: int, path: Path = ()) -> int:
        """The layer behind the last one that fits on ``c`` with all from ``first`` on."""
        allowed = self.problem.allowed
        key = m, first, self.sizes[c] if allowed is None else c
        if key not in self.known:
            weights, need, end = 0, 0, first
            for own, most in zip(self.costs[m][0][first:], self.costs[m][1][first:], strict=True):
                weights, need = weights + own, max(need, most)
                if weights + need > self.sizes[c] or (allowed is not None and not allowed[m][end, c]):
                    break
                end += 1
            self.known[key] = end
        return self.known[key]

    def furthest(self, m: int, first: int, free: set[int], share: int, random: Random) -> list[tuple[int, int]]:
        """The path of up to ``share`` free chiplets that takes most layers (of equal ones the shortest), with ends."""
        last, best, looked = self.problem.models[m].layers, list[tuple[int, int]](), 0
        starts = sorted(free)
        random.shuffle(starts)
        stack = [[(c, self.end(m, first, c))] for c in starts]
        while stack and looked < PATHS:
            path, looked = stack.pop(), looked + 1
            at, end = path[-1]
            if end == (path[-2][1] if len(path) > 1 else first):
                continue  # not even one layer fits here
            if not best or (end, -len(path)) > (best[-1][1], -len(best)):
                best = path
            if end == last or len(path) == share:
                continue
            used = {c for c, _ in path}
            near = [c for c in self.problem.neighbours[at] if c in free and c not in used]
            stack += [[*path, (c, self.end(m, end, c, ((-1, first), *path)))] for c in near]
        return best


class _Grouped(_Reach):
    """As far as layers fit where groups share a chiplet, or don't (C6): ``chip`` of the layers that stand already."""

    def __init__(self, problem: MultiProblem, asked: Pinned) -> None:
        super().__init__(problem)
        self.chip: dict[Layer, int] = {}
        self.mates = _others(asked.groups)
        self.foes = _others(asked.apart)

    def take(self, m: int, first: int, path: Path) -> None:
        """The layers from ``first`` on stand on a path."""
        for c, end in path:
            self.chip |= {(m, k): c for k in range(first, end)}
            first = end

    def end(self, m: int, first: int, c: int, path: Path = ()) -> int:
        """The layer behind the last one that fits on ``c`` with all from ``first`` on, behind a path of (chiplet,
        layer behind its last) from (-1, the first layer) on."""
        on_path = {(m, k): at for (_, a), (at, b) in pairwise(path) for k in range(a, b)}
        last = super().end(m, first, c)
        for k in range(first, last):
            if any(on_path.get(one, self.chip.get(one, c)) != c for one in self.mates.get((m, k), ())):
                return k
            if any(
                self._stands(one, on_path) == c or (one[0] == m and first <= one[1] < k)
                for one in self.foes.get((m, k), ())
            ):
                return k
        return last

    def _stands(self, layer: Layer, on_path: dict[Layer, int]) -> int:
        return on_path.get(layer, self.chip.get(layer, -1))


def _others(groups: Iterable[tuple[Layer, ...]]) -> dict[Layer, set[Layer]]:
    """By layer the others of its groups."""
    found: dict[Layer, set[Layer]] = {}
    for group in groups:
        for one in group:
            found.setdefault(one, set()).update(other for other in group if other != one)
    return found
