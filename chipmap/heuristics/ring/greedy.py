"""The greedy baseline: fill one chip after the other along a topological order (numpy only, O(operations · targets)).

The paper compares with a greedy heuristic of a production compiler, linear in the operations, without giving it
(section 5.1). Ours closes a chip when its work reaches the target, and keeps to the ``path`` rule (every reader of what
lies before a chip comes at the latest on that chip), so that C1, C2 and C3 hold by construction. Targets around the
average load are tried, then bisection narrows the gap between the best one and the next that failed. The best mapping
that obeys memory and pins wins.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np

from chipmap.deadline import Deadline
from chipmap.instances.ring.loads import loads, terms
from chipmap.instances.ring.problem import RingProblem
from chipmap.networks.graph import neighbours

#: Shares of the SRAM that weights may take before a chip is closed; the rest is for buffers.
WEIGHT_SHARES = (1.0, 0.95, 0.85, 0.7, 0.5)
#: Targets for a chip's work, in shares of the average; the last puts everything on one chip.
TARGETS = (0.5, 0.75, 0.9, 1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 13.0, 18.0, 36.0)
#: The target of a first mapping, where somebody wants to hear of one.
AT_ONCE = 1.2
#: Relative width at which bisection between the best target and the next that failed ends.
PRECISION = 0.002
#: Seconds past the deadline that the search for a first mapping may take.
PATIENCE = 1.0


def greedy(
    problem: RingProblem,
    deadline: Deadline = Deadline(),
    tell: Callable[[tuple[int, ...]], object] | None = None,
) -> tuple[int, ...] | None:
    """The best greedy mapping (chip per operation, -1 where not computing); None if none obeys memory and pins.

    ``tell`` hears of one at once, at a target that mostly can be met. Ends at ``deadline`` with the best so far. While
    there is none, it goes on for :data:`PATIENCE` seconds more, from now where the deadline has passed, so that there
    is a result however short the time is.
    """
    flows = _Flows(problem)
    if not flows.order:
        return tuple([-1] * problem.n)
    average = problem.total_ticks / problem.chips
    best: tuple[int, tuple[int, ...]] | None = None
    late = deadline.late(PATIENCE)

    def improves(share: float) -> bool:
        """Whether the filling for this target is the best so far."""
        nonlocal best
        chips = _fit(problem, flows, share * average)
        value = max(terms(problem, np.maximum(np.array(chips), 0))) if chips is not None else 0
        if chips is None or (best is not None and value >= best[0]):
            return False
        best = (value, chips)
        return True

    if tell is not None and (early := _fit(problem, flows, AT_ONCE * average)) is not None:
        tell(early)
    failed, met = 0.0, 0.0  # the best target, and the largest below it that gave nothing better
    for share in (*TARGETS, float(problem.chips)):
        if not (late if best is None else deadline).keep_going():
            break
        if improves(share):
            failed, met = max((one for one in TARGETS if one < share), default=0.0), share
    while best is not None and met - failed > PRECISION * met and deadline.keep_going():
        if best[0] == problem.least_ticks:
            break
        middle = (failed + met) / 2
        if improves(middle):
            met = middle
        else:
            failed = middle
    return best[1] if best else None


class _Flows:
    """The computing operations as lists, by place in a topological order: ``order[i]`` is the position of i.

    ``readers[i]`` and ``producers[i]`` are places, ``ticks[i]`` and ``bytes[i]`` the work and the weights of its own;
    ``constants[i]`` are the shared constants (of the problem) that it reads.
    """

    def __init__(self, problem: RingProblem) -> None:
        self.order = [v for v in problem.order if problem.computing[v]]
        place = np.zeros(problem.n, dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        flows = place[problem.flows]
        self.readers = neighbours(len(self.order), flows.tolist())
        self.producers = neighbours(len(self.order), flows[:, ::-1].tolist())
        self.ticks: list[int] = problem.ticks[self.order].tolist()
        shared = ((place[v], s) for s, constant in enumerate(problem.shared) for v in constant.readers)
        self.constants = neighbours(len(self.order), shared)
        self.bytes: list[int] = problem.weight_bytes[self.order].tolist()


def _fit(problem: RingProblem, flows: _Flows, target: float) -> tuple[int, ...] | None:
    """A filling that obeys memory and pins, with as much of the SRAM for weights as leaves room for the buffers."""
    if not problem.has("C4"):
        chips, _ = _fill(problem, flows, target, float("inf"))
        return chips if chips is not None and _valid(problem, chips) else None
    asked = float("inf")
    for share in WEIGHT_SHARES:
        limit = share * problem.sram_bytes
        if asked <= limit:
            continue  # the limit stopped nothing before: the same filling
        chips, asked = _fill(problem, flows, target, limit)
        if chips is not None and _valid(problem, chips):
            return chips
    return None


def _fill(
    problem: RingProblem, flows: _Flows, target: float, weight_limit: float
) -> tuple[tuple[int, ...] | None, float]:
    """Fill chips in order up to ``target`` ticks and ``weight_limit`` bytes; None when the chips run out.

    Also the most weights that a chip was asked to hold: a limit that isn't below them gives the same filling.
    """
    count, ticks, bytes_ = len(flows.order), flows.ticks, flows.bytes
    chips, missing = [-1] * count, [len(before) for before in flows.producers]
    waiting = [i for i in range(count) if not missing[i]]  # all producers placed; sorted, and so a heap
    reached: list[int] = []  # readers of what was placed last
    asked, left = 0.0, count
    for chip in range(problem.chips):
        due = _due(reached, chips, flows.producers)
        reached = []
        work, weights, held = 0.0, 0.0, set[int]()
        later = []
        while waiting:
            i = heappop(waiting)
            fresh = [s for s in flows.constants[i] if s not in held]
            needed = weights + bytes_[i] + sum(problem.shared[s].bytes for s in fresh)
            asked = max(asked, needed)
            fits = work + ticks[i] <= target and needed <= weight_limit
            if not (fits or i in due or work == 0.0):
                later.append(i)
                continue
            chips[i] = chip
            work += ticks[i]
            weights = needed
            held.update(fresh)
            left -= 1
            for j in flows.readers[i]:
                reached.append(j)
                missing[j] -= 1
                if not missing[j]:
                    heappush(waiting, j)
        if not left:
            mapping = [-1] * problem.n
            for v, c in zip(flows.order, chips, strict=True):
                mapping[v] = c
            return tuple(mapping), asked
        waiting = later
    return None, asked


def _due(reached: list[int], chips: list[int], producers: list[list[int]]) -> set[int]:
    """What must come now: the readers of placed operations, and everything unplaced before them."""
    due: set[int] = set()
    stack = [i for i in reached if chips[i] < 0]
    while stack:
        i = stack.pop()
        if i not in due:
            due.add(i)
            stack.extend(j for j in producers[i] if chips[j] < 0)
    return due


def _valid(problem: RingProblem, chips: tuple[int, ...]) -> bool:
    """Whether pins, groups and memory hold (C1 to C3 hold by construction)."""
    if any(allowed is not None and chips[v] not in allowed for v, allowed in enumerate(problem.allowed)):
        return False
    if any(len({chips[v] for v in group}) > 1 for group in problem.groups):
        return False
    if any(len({chips[v] for v in group}) < len(group) for group in problem.apart):
        return False
    if not problem.has("C4"):
        return True
    memory = loads(problem, np.maximum(np.array(chips), 0)).memory_bytes
    return bool((memory <= problem.sram_bytes).all())
