"""The greedy baseline: fill one chip after the other along a topological order (numpy only, O(operations · targets)).

The paper compares with a greedy heuristic of a production compiler, linear in the operations, without giving it
(section 5.1). Ours closes a chip when its work reaches the target, and keeps to the ``path`` rule (every reader of what
lies before a chip comes at the latest on that chip), so that C1, C2 and C3 hold by construction. Targets from the
average load upwards are tried, and the best mapping that obeys memory and pins wins.
"""

from __future__ import annotations

import numpy as np

from chipmap.instances.ring.problem import RingProblem, loads, terms

#: Shares of the SRAM that weights may take before a chip is closed; the rest is for buffers.
WEIGHT_SHARES = (1.0, 0.95, 0.85, 0.7, 0.5)
#: Targets for a chip's work, in shares of the average; the last puts everything on one chip.
TARGETS = (0.5, 0.75, 0.9, 1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 13.0, 18.0, 36.0)


def greedy(problem: RingProblem) -> tuple[int, ...] | None:
    """The best greedy mapping (chip per operation, -1 where not computing); None if none obeys memory and pins."""
    order = [v for v in problem.order if problem.computing[v]]
    if not order:
        return tuple([-1] * problem.n)
    average = problem.total_ticks / problem.chips
    best: tuple[int, tuple[int, ...]] | None = None
    for share in (*TARGETS, float(problem.chips)):
        chips = _fit(problem, order, share * average)
        if chips is None:
            continue
        value = max(terms(problem, [max(c, 0) for c in chips]))
        if best is None or value < best[0]:
            best = (value, chips)
    return best[1] if best else None


def _fit(problem: RingProblem, order: list[int], target: float) -> tuple[int, ...] | None:
    """A filling that obeys memory and pins, with as much of the SRAM for weights as leaves room for the buffers."""
    for share in WEIGHT_SHARES if problem.has("C4") else (float("inf"),):
        chips = _fill(problem, order, target, share * problem.sram_bytes)
        if chips is not None and _valid(problem, chips):
            return chips
    return None


def _fill(problem: RingProblem, order: list[int], target: float, weight_limit: float) -> tuple[int, ...] | None:
    """Fill chips in ``order`` up to ``target`` ticks and ``weight_limit`` bytes; None when the chips run out."""
    producers: dict[int, list[int]] = {v: [] for v in order}
    readers: dict[int, list[int]] = {v: [] for v in order}
    for u, v in problem.flows.tolist():
        producers[v].append(u)
        readers[u].append(v)
    constants: dict[int, list[int]] = {v: [] for v in order}
    for s, constant in enumerate(problem.shared):
        for v in constant.readers:
            constants[v].append(s)
    chips = [-1] * problem.n
    left = list(order)
    for chip in range(problem.chips):
        due = _due(left, chips, producers)
        work, weights, held = 0.0, 0.0, set[int]()
        later = []
        for v in left:
            ready = all(chips[u] >= 0 for u in producers[v])
            fresh = [s for s in constants[v] if s not in held]
            ticks = float(problem.ticks[v])
            bytes_ = float(problem.weight_bytes[v]) + sum(problem.shared[s].bytes for s in fresh)
            fits = work + ticks <= target and weights + bytes_ <= weight_limit
            if ready and (v in due or fits or work == 0.0):
                chips[v] = chip
                work += ticks
                weights += bytes_
                held.update(fresh)
            else:
                later.append(v)
        left = later
        if not left:
            return tuple(chips)
    return None


def _due(left: list[int], chips: list[int], producers: dict[int, list[int]]) -> set[int]:
    """What must come now: the readers of placed operations, and everything unplaced before them."""
    due: set[int] = set()
    stack = [v for v in left if any(chips[u] >= 0 for u in producers[v])]
    while stack:
        v = stack.pop()
        if v not in due:
            due.add(v)
            stack.extend(u for u in producers[v] if chips[u] < 0)
    return due


def _valid(problem: RingProblem, chips: tuple[int, ...]) -> bool:
    """Whether pins, groups and memory hold (C1 to C3 hold by construction)."""
    if any(allowed is not None and chips[v] not in allowed for v, allowed in enumerate(problem.allowed)):
        return False
    if any(len({chips[v] for v in group}) > 1 for group in problem.groups):
        return False
    if not problem.has("C4"):
        return True
    memory = loads(problem, np.maximum(np.array(chips), 0)).memory_bytes
    return bool((memory <= problem.sram_bytes).all())
