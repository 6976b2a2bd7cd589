"""Simple schedules that others are measured against, and the first two steps of SCAR's search.

*Standalone*: every model whole, on one chiplet. SCAR's steps are its Algorithm 1 (:func:`pack`) and its equation 2
(:func:`provide`); the rest of it is in :mod:`chipmap.heuristics.multimodel.published.scar`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.multimodel.problem import MultiProblem, Segment, energy, latency

#: First and last layer.
Range = tuple[int, int]


def whole_models(problem: MultiProblem, chiplets: Sequence[int] | None = None) -> list[list[Segment]] | None:
    """Windows of whole models on some of the chiplets (None: all).

    Models go, the longest first, to the place that raises the objective least; windows are opened one by one. None
    where a model fits on no chiplet (C5) or there are too few places.
    """
    allowed = range(problem.chiplets) if chiplets is None else chiplets
    windows: list[list[Segment]] = []
    slowest: list[int] = []
    total = 0
    for m in sorted(range(len(problem.models)), key=lambda m: -_fastest(problem, m)):
        ways = []
        for w in range(min(problem.windows, len(windows) + 1)):
            taken = {segment[3] for segment in windows[w]} if w < len(windows) else set()
            for c in allowed:
                segment = (m, 0, problem.models[m].layers - 1, c)
                if c in taken or not fits(problem, segment):
                    continue
                own, cost = latency(problem, [segment]), energy(problem, [segment])
                before = slowest[w] if w < len(windows) else 0
                length = max(own, before)
                if problem.sharing is not None:
                    beside = windows[w] if w < len(windows) else []
                    length = max(length, problem.sharing.time([*beside, segment]))
                time = sum(slowest) + length - before
                ways.append((problem.value(time, total + cost), time, total + cost, w, segment, length))
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
    """C5 of one segment; of a problem narrowed to pins also the chiplets of its layers."""
    m, first, last, c = segment
    limit = problem.instance.module.chiplets[c].sram_bytes
    model = problem.models[m]
    run = slice(first, last + 1)
    if problem.allowed is not None and not problem.allowed[m][run, c].all():
        return False
    return limit is None or int(model.weights[run].sum()) + int(model.need[run].max()) <= limit


def _fastest(problem: MultiProblem, m: int) -> int:
    return min(latency(problem, [(m, 0, problem.models[m].layers - 1, c)]) for c in range(problem.chiplets))


def classes(problem: MultiProblem) -> list[tuple[str, tuple[int, ...]]]:
    """Each class of the module with its chiplets."""
    found: dict[str, list[int]] = {}
    for c, chiplet in enumerate(problem.instance.module.chiplets):
        found.setdefault(chiplet.kind, []).append(c)
    return [(kind, tuple(chiplets)) for kind, chiplets in found.items()]


def pack(times: Sequence[Sequence[int]], splits: int) -> list[list[Range | None]]:
    """SCAR's Algorithm 1: for each window and model the first and last layer, or None; empty windows are left out.

    ``times``: the expected time of each layer of each model, in any unit. The longest model's time is cut into
    ``splits`` + 1 equal windows. Each model's layers go to them in order. A layer that doesn't end within its window
    waits for the next one, and the last window takes what is left.
    """
    count = splits + 1
    horizon = max(sum(own) for own in times)  # window w ends at (w + 1) · horizon / count: all is counted count times
    windows: list[list[Range | None]] = [[None] * len(times) for _ in range(count)]
    for m, own in enumerate(times):
        window = used = begun = 0
        for layer, time in enumerate(own):
            while window < splits and used + count * time > (window + 1) * horizon:
                if begun < layer:
                    windows[window][m] = (begun, layer - 1)
                window, used, begun = window + 1, (window + 1) * horizon, layer
            used += count * time
        windows[window][m] = (begun, len(own) - 1)
    return [window for window in windows if any(window)]


def provide(metrics: Sequence[int], chiplets: int) -> list[int]:
    """SCAR's equation 2: how many of the chiplets each model of a window gets, by its expected metric.

    Each model gets its share, halves rounded up, and at least one. Where these are too many, the model with most of
    them (the first of several) gives one back, again and again.
    """
    total = sum(metrics)
    nodes = [max(1, (2 * metric * chiplets + total) // (2 * total)) if total else 1 for metric in metrics]
    while sum(nodes) > chiplets and max(nodes) > 1:
        nodes[nodes.index(max(nodes))] -= 1
    return nodes
