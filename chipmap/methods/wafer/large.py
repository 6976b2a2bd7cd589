"""Times that are too short for the largest kernels alone, by CP-SAT.

A floorplan within time τ holds the largest kernels in boxes sized for τ, and leaves the other kernels room. So where
CP-SAT proves that these few have no place on the fabric, no floorplan takes τ or less. Packing inequalities miss that
where sides don't add up: seven boxes of 258 × 44 tiles have room on 301 × 299 by their tiles, but neither lie above
each other nor beside each other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chipmap.instances.wafer.instance import WaferInstance
from chipmap.instances.wafer.problem import IntArray, WaferProblem
from chipmap.instances.wafer.shapes import shapes
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Limits, solve_within

#: A kernel is large if its least box takes so much of the fabric; they are tried where together they take so much.
SHARE, TOGETHER = 0.02, 0.5
#: Large kernels at most, the largest first.
MOST = 16
#: Deterministic work of CP-SAT at one time, and seconds before the end of the run at which it must have ended.
WORK, MARGIN = 0.4, 0.5
#: The first step to a longer time, as a part of it; steps double. What is found is known to half of the first step.
STEP = 0.002


def least_tiles(problem: WaferProblem, tau: int) -> IntArray | None:
    """[n] the tiles of each kernel's least box within ``tau`` quarters; None where one has none."""
    found = shapes(problem, tau)
    if not all(map(len, found)):
        return None
    tiles: IntArray = np.array([(boxes[:, 0] * boxes[:, 1]).min() for boxes in found])[problem.types]
    return tiles


def largest(problem: WaferProblem, tau: int) -> WaferInstance | None:
    """The large kernels alone, without edges; None where they need less than half of the fabric, or there is one."""
    tiles, room = least_tiles(problem, tau), problem.width * problem.height
    if tiles is None:
        return None
    order = np.argsort(-tiles, kind="stable")[:MOST]
    chosen = order[tiles[order] >= SHARE * room]
    if len(chosen) < 2 or tiles[chosen].sum() < TOGETHER * room:
        return None
    names = {problem.names[v] for v in chosen.tolist()}
    kernels = tuple(kernel for kernel in problem.instance.kernels if kernel.name in names)
    return problem.instance.replace(kernels=kernels, edges=())


def too_short(problem: WaferProblem, least: int, turn: Turn) -> int:
    """The longest time found, from ``least`` quarters on, that is proved too short; ``least`` - 1 for none."""
    short, tau, step = least - 1, least, max(1, int(STEP * least))
    some = largest(problem, least)
    if some is None or not problem.instance.weights.time:
        return short
    while tau <= problem.longest and _refuted(problem, some, tau, turn):
        short, tau, step = tau, tau + step, 2 * step
    while short >= least and tau - short > max(1, int(STEP * least / 2)) and turn.deadline.keep_going():
        middle = (short + tau) // 2
        short, tau = (middle, tau) if _refuted(problem, some, middle, turn) else (short, middle)
    return short


def _refuted(problem: WaferProblem, some: WaferInstance, tau: int, turn: Turn) -> bool:
    """Whether CP-SAT proves within its work that the large kernels have no place at ``tau``."""
    from chipmap.formulations.wafer.cpsat_large import large

    until = min(turn.deadline.until, turn.run.deadline.until - MARGIN)
    end, tiles = replace(turn.deadline, until=until), least_tiles(problem, tau)
    if tiles is None or not end.keep_going():
        return False
    free = problem.width * problem.height - int(tiles.sum())
    if free < 0:
        return True
    limits = Limits(work=WORK, threads=1, deadline=end)
    model = large(some, tau, free)
    return solve_within(turn.run, model, None, None, limits, "cpsat").termination.reason == "infeasible"
