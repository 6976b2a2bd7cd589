"""The shortest time over slicing floorplans of many orders, where wires and adapters cost nothing.

Annealing over linear orders: an order is worth the least width that its slicing floorplans need at a target time just
below the best one known (:class:`chipmap.heuristics.wafer.slicing.program.OrderProgram`). Where that is the fabric's
or less, the program gives the order's own least time, and the target falls below it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.slicing.program import Start
from chipmap.instances.wafer.instance import WaferSolution
from chipmap.instances.wafer.problem import IntArray, WaferProblem

#: Tiles of excess width that are accepted at first, the share that is left after ``COOLING`` orders, orders in all.
HOT, COLD, COOLING, ORDERS = 6.0, 0.02, 3000, 12_000


def order_search(
    problem: WaferProblem,
    seed: int,
    deadline: Deadline,
    improved: Callable[[WaferSolution], None],
    orders: int = ORDERS,
) -> WaferSolution | None:
    """The floorplan of shortest time found over ``orders`` orders, or until ``deadline``.

    ``improved`` hears of every better one. None where the depth-first order has no slicing floorplan at any time.
    """
    start, random = Start(problem), np.random.default_rng(seed)
    if problem.n == 1 or start.tau == 0:
        return None
    program, low, tau = start.program, start.low, start.tau
    best = program.layout(tau)
    improved(best)
    order = program.order.copy()
    width = program.width(tau - 1)
    for number in range(orders):
        if not deadline.keep_going() or tau <= low:
            break
        temperature = HOT * COLD ** ((number % COOLING) / COOLING)
        program.order = _neighbour(order, random)
        found = program.width(tau - 1)
        if found > width and random.random() >= np.exp((width - found) / temperature):
            continue
        order, width = program.order, found
        if found <= problem.width:
            tau = program.least(low, tau - 1)
            best = program.layout(tau)
            improved(best)
            width = program.width(tau - 1)
    return best


def _neighbour(order: IntArray, random: np.random.Generator) -> IntArray:
    """The order with two kernels exchanged, one moved, or a run reversed."""
    a, b = sorted(random.choice(len(order), 2, replace=False).tolist())
    changed = order.copy()
    move = random.integers(3)
    if move == 0:
        changed[[a, b]] = changed[[b, a]]
    elif move == 1:
        changed[a : b + 1] = np.roll(changed[a : b + 1], 1 if random.random() < 0.5 else -1)
    else:
        changed[a : b + 1] = changed[a : b + 1][::-1]
    return changed
