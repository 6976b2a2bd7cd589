"""Folded rows: snakes of several rows, and single rows whose ends are folded once.

At a target time every kernel has a narrowest shape for each strip height, so a folding (where rows start, how high they
are) has a definite wire length, and programs over (cut, height used) and (cut, width used) find the cheapest of each
family: a bound for all its members, as adapters only add. The row program then chooses the execution arguments for the
cheapest foldings anew, with adapters and within the strips' sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chipmap.heuristics.wafer.rows.chain import Chain, Row, Solver, StripChoice
from chipmap.heuristics.wafer.rows.folded_kernel import Tables, between, snake, tails
from chipmap.heuristics.wafer.rows.kernel import INF, Wire
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import WaferProblem
from chipmap.instances.wafer.shapes import shapes

#: From here on values are of foldings that don't exist: a part without room costs INF, others less than nothing.
NOTHING = INF // 2


class Run(NamedTuple):
    """Positions ``first`` to ``end`` - 1 of the order side by side in a strip from ``bottom`` up ``height`` tiles.

    ``step`` is 1 from left to right, -1 from right to left. Runs of one ``section`` lie above each other; sections
    follow each other from left to right. ``turns`` says that the run before leads into this one by a turn.
    """

    first: int
    end: int
    bottom: int
    height: int
    step: int
    section: int
    turns: bool


class Folding(NamedTuple):
    """A folded row: its runs in the row's order, and the wires' length in half tiles with the narrowest shapes."""

    runs: tuple[Run, ...]
    wires: int


def cuts(row: Row) -> list[int]:
    """0, n and the positions before which exactly the wire from the position before passes."""
    n = len(row.order)
    passed = {p for i, j in row.wires for p in range(i + 1, j + 1) if (i, j) != (p - 1, p)}
    return [0, *(p for p in range(1, n) if p not in passed), n]


def tables(problem: WaferProblem, row: Row, tau: int, half: int) -> Tables:
    """The folding programs' tables at ``tau`` quarters; ``half`` is the price of half a tile of wire."""
    height = problem.height
    narrowest = []
    for boxes in shapes(problem, tau):
        widths = np.zeros(height + 1, np.int64)
        for box, following in zip(boxes, [*boxes[1:, 1], height + 1], strict=False):
            widths[box[1] : following] = box[0]
        narrowest.append(widths)
    width = np.stack([narrowest[int(problem.types[kernel])] for kernel in row.order], axis=1)
    lambdas = np.array(row.prices, dtype=np.int64) // max(half, 1)
    zero = np.zeros((height + 1, 1), np.int64)
    sums = [np.concatenate([zero, np.cumsum(x, axis=1)], axis=1) for x in (width, width * lambdas, width == 0)]
    return Tables(np.ascontiguousarray(width), sums[0], sums[1], sums[2], np.array(cuts(row), dtype=np.int64))


def mirrored(t: Tables) -> Tables:
    """The tables of the row read backwards."""
    width = np.ascontiguousarray(t.width[:, ::-1])
    n = width.shape[1]
    sums = [np.ascontiguousarray(x[:, -1:] - x[:, ::-1]) for x in (t.tiles, t.cost, t.bad)]
    return Tables(width, sums[0], sums[1], sums[2], n - t.cuts[::-1])


def foldings(problem: WaferProblem, row: Row, tau: int) -> list[Folding]:
    """The cheapest snake and the cheapest row with folded ends at ``tau`` quarters, where they exist."""
    half = 2 * problem.instance.weights.wire
    t = tables(problem, row, tau, half)
    found = []
    value, rows = snake(t, problem.width, problem.height)
    if value < NOTHING:
        bottom, runs = 0, []
        for i, (first, end, height) in enumerate(rows.tolist()):
            runs.append(Run(first, end, bottom, height, 1 - 2 * (i % 2), 0, i > 0))
            bottom += height
        found.append(Folding(tuple(runs), int(value)))
    ends = _folded_ends(problem, t)
    if ends is not None:
        found.append(ends)
    return sorted(found, key=lambda folding: folding.wires)


def _folded_ends(problem: WaferProblem, t: Tables) -> Folding | None:
    width, height, n = problem.width, problem.height, t.width.shape[1]
    tail, tail_how = tails(t, width, height)
    head, head_how = tails(mirrored(t), width, height)
    head, head_how = np.ascontiguousarray(head[::-1]), np.ascontiguousarray(head_how[::-1])
    value, i, j, room = between(t, head, tail, width, height)
    if value >= NOTHING:
        return None
    start, end = int(t.cuts[i]), int(t.cuts[j])
    runs = []
    if start > 0:
        turn, h = n - int(head_how[i, room, 0]), int(head_how[i, room, 1])
        runs += [Run(0, turn, h, height - h, -1, 0, False), Run(turn, start, 0, h, 1, 0, True)]
    runs.append(Run(start, end, 0, height, 1, 1, False))
    if end < n:
        left = width - int(t.tiles[height, end] - t.tiles[height, start]) - (room if start > 0 else 0)
        turn, h = int(tail_how[j, left, 0]), int(tail_how[j, left, 1])
        runs += [Run(end, turn, 0, h, 1, 2, False), Run(turn, n, h, height - h, -1, 2, True)]
    return Folding(tuple(runs), int(value))


def folded_row(problem: WaferProblem, row: Row, runs: Sequence[Run]) -> Row:
    """``row`` as its program sees it when folded: strips, no width paid at turns, and what turns and steps cost."""
    half = 2 * problem.instance.weights.wire
    prices, wires, fixed = list(row.prices), dict(row.wires), row.fixed
    strips = []
    for run in runs:
        strips += [(run.height, problem.width)] * (run.end - run.first)
    for before, run in pairwise(runs):
        joint = (run.first - 1, run.first)
        wire = wires.get(joint)
        if wire is None:
            continue
        times = wire.half // max(half, 1)
        fixed += wire.half * abs(2 * before.bottom + before.height - 2 * run.bottom - run.height)
        if run.turns:
            prices[joint[0]] -= half * times
            prices[joint[1]] -= half * times
        wires[joint] = Wire(wire.adapter, 0)
    return Row(row.order, tuple(prices), tuple(strips), wires, fixed)


def fit_runs(problem: WaferProblem, row: Row, runs: Sequence[Run], solve: Solver, rounds: int = 12) -> Chain | None:
    """The row program with every run no longer than its share: multipliers per run by bisection; None where none fits.

    A run may be as long as what the longest runs of the other sections leave of the fabric's width.
    """
    low, high, now = [0] * len(runs), [-1] * len(runs), [0] * len(runs)
    step = max(1, max(row.prices) // 4)
    best: Chain | None = None
    for _ in range(rounds):
        prices = [max(price, 1) for price in row.prices]
        for more, run in zip(now, runs, strict=True):
            for p in range(run.first, run.end):
                prices[p] += more
        chain = solve(Row(row.order, tuple(prices), row.strips, row.wires, row.fixed))
        if chain is None:
            return best
        paid = sum((a - b) * c.along for a, b, c in zip(prices, row.prices, chain.choices, strict=True))
        chain = chain._replace(value=chain.value - paid)
        over = excess(problem, runs, chain.choices)
        if not any(over) and (best is None or chain.value < best.value):
            best = chain
        if not any(over) and not any(now):
            break
        for r, long in enumerate(over):
            if long:
                low[r] = now[r]
                now[r] = (low[r] + high[r] + 1) // 2 if high[r] > now[r] else 4 * now[r] + step
            elif now[r] > 0:
                high[r] = now[r]
                now[r] = (low[r] + high[r]) // 2
    return best


def lengths(runs: Sequence[Run], choices: Sequence[StripChoice]) -> tuple[list[int], dict[int, int]]:
    """How many tiles long each run is, and each section."""
    long = [sum(choices[p].along for p in range(run.first, run.end)) for run in runs]
    sections: dict[int, int] = {}
    for length, run in zip(long, runs, strict=True):
        sections[run.section] = max(sections.get(run.section, 0), length)
    return long, sections


def excess(problem: WaferProblem, runs: Sequence[Run], choices: Sequence[StripChoice]) -> list[bool]:
    """For each run whether it is the longest of its section while the sections don't fit side by side."""
    long, sections = lengths(runs, choices)
    fits = sum(sections.values()) <= problem.width
    return [not fits and length == sections[run.section] for length, run in zip(long, runs, strict=True)]


def lay_runs(
    problem: WaferProblem, row: Row, runs: Sequence[Run], choices: Sequence[StripChoice]
) -> tuple[Placement, ...]:
    """The folded row as placements in the order of the problem: turns with centres aligned where there's room."""
    long, sections = lengths(runs, choices)
    spans = _spans(problem.width, sections)
    lefts: list[int] = []
    for r, run in enumerate(runs):
        lefts.append(_left(runs, r, choices, lefts, spans[run.section], long))
    if len(sections) == 1:
        shift = -min(lefts)
        lefts = [left + shift for left in lefts]
    placed: dict[int, Placement] = {}
    for r, run in enumerate(runs):
        low, high = spans[run.section]
        x = min(max(lefts[r], low), high - long[r])
        positions = range(run.first, run.end) if run.step > 0 else range(run.end - 1, run.first - 1, -1)
        for p in positions:
            choice = choices[p]
            y = run.bottom + (run.height - choice.up) // 2
            kernel = row.order[p]
            placed[kernel] = choice.place(problem.names[kernel], x, y)
            x += choice.along
    return tuple(placed[i] for i in range(problem.n))


def _spans(width: int, sections: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Where each section may lie: the first from the left side on, the last up to the right side."""
    names = sorted(sections)
    slack, x, spans = width - sum(sections.values()), 0, {}
    for name in names:
        if name != names[0] or len(names) == 1:
            spans[name] = (x, x + sections[name] + (slack if name == names[-1] else 0))
        else:
            spans[name] = (0, sections[name])
        x = spans[name][0] + sections[name]
    return spans


def _left(
    runs: Sequence[Run],
    r: int,
    choices: Sequence[StripChoice],
    lefts: Sequence[int],
    span: tuple[int, int],
    long: list[int],
) -> int:
    """Left end of run r: below or above the turn before it, else against the section before or behind."""
    run, (low, high) = runs[r], span
    if run.turns:
        before = runs[r - 1]
        at = lefts[r - 1] + (long[r - 1] - choices[before.end - 1].along if before.step > 0 else 0)
        left = at + (choices[before.end - 1].along - choices[run.first].along) // 2
        return left if run.step > 0 else left - long[r] + choices[run.first].along
    joins_next = r + 1 < len(runs) and runs[r + 1].section != run.section
    return high - long[r] if joins_next or run.step < 0 else low
