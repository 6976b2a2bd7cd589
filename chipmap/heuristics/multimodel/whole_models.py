"""Schedules at once: every model whole, on one chiplet of one window.

Models go, the longest first, to the place that raises the objective least; windows are opened one by one.
"""

from __future__ import annotations

from chipmap.instances.multimodel.problem import MultiProblem, Segment, energy, latency


def whole_models(problem: MultiProblem) -> list[list[Segment]] | None:
    """Windows of whole models; None where one fits on no chiplet (C5) or there are too few places."""
    windows: list[list[Segment]] = []
    slowest: list[int] = []
    total = 0
    for m in sorted(range(len(problem.models)), key=lambda m: -_fastest(problem, m)):
        ways = []
        for w in range(min(problem.windows, len(windows) + 1)):
            taken = {segment[3] for segment in windows[w]} if w < len(windows) else set()
            for c in range(problem.chiplets):
                segment = (m, 0, problem.models[m].layers - 1, c)
                if c in taken or not fits(problem, segment):
                    continue
                own, cost = latency(problem, [segment]), energy(problem, [segment])
                before = slowest[w] if w < len(windows) else 0
                time = sum(slowest) + max(0, own - before)
                ways.append((problem.objective(time, total + cost), time, total + cost, w, segment, max(before, own)))
        if not ways:
            return None
        _, _, total, w, segment, longest = min(ways)
        if w == len(windows):
            windows.append([])
            slowest.append(0)
        windows[w].append(segment)
        slowest[w] = longest
    return windows


def fits(problem: MultiProblem, segment: Segment) -> bool:
    """C5 of one segment."""
    m, first, last, c = segment
    limit = problem.instance.module.chiplets[c].sram_bytes
    model = problem.models[m]
    run = slice(first, last + 1)
    return limit is None or int(model.weights[run].sum()) + int(model.need[run].max()) <= limit


def _fastest(problem: MultiProblem, m: int) -> int:
    return min(latency(problem, [(m, 0, problem.models[m].layers - 1, c)]) for c in range(problem.chiplets))
