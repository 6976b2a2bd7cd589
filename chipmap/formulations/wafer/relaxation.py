"""A lower bound on the score by geometric programming: sizing without ceilings, floorplans as areas.

Variables per type of kernel, all >= 1: h, w, c and the k_i, and the numbers of rounds a_i >= H_i/h, b_i >= W_i/w,
p_i >= C_i/c, q_i >= K_i/k_i, which a real kernel meets with its ceilings. Then with areas s >= 3 Σ k_i · h w (c + 1)

- T >= a_i b_i p_i q_i R_i S_i / stride_i² for every convolution,
- C_i/c · K_i/k_i · R_i S_i + (W_i+S_i-1)/w · (H_i+R_i-1)/h · K_i/k_i <= words per tile (C3),
- 3 Σ k_i and h · w · (c + 1) are at most the fabric's longer side (C1), and the areas sum to at most its area (C1, C2),
- the shorter side t of a box is at least 2 and at least s divided by the fabric's longer side; two boxes joined by a
  wire are at least (t_u + t_v) / 2 apart.

All are posynomials against monomials, so that logarithms make the program convex (Boyd, Kim, Vandenberghe and Hassibi,
A tutorial on geometric programming, 2007). A common c loses nothing: raising every c_i to the largest keeps the height
and lets every k_i fall (CU.POKer, "A Simplification").
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from chipmap.instances.wafer.problem import TICKS, WaferProblem

#: What is taken off the dual value, relative to it, for the tolerance of the conic solver (1e-8 by default).
MARGIN = 1e-6


@dataclass(frozen=True)
class GeometricBound:
    """``time`` quarters and ``score`` ticks: no floorplan has less of either (None: the solver has no proof)."""

    time: int | None
    score: int | None


def bound(problem: WaferProblem) -> GeometricBound:
    """Lower bounds on the time alone and on w_t · time + w_l · wires, rounded up to whole quarters and ticks."""
    weights = problem.instance.weights
    fastest = _solve(problem, 1.0, 0.0)
    time = None if fastest is None else int(np.ceil(TICKS * fastest))
    if time is None or not len(problem.edges) or not weights.wire or not weights.time:
        return GeometricBound(time, None if time is None else weights.time * time)
    both = _solve(problem, float(weights.time), float(weights.wire))
    if both is None:
        return GeometricBound(time, weights.time * time)
    return GeometricBound(time, max(weights.time * time, int(np.ceil(TICKS * both))))


def _solve(problem: WaferProblem, time_weight: float, wire_weight: float) -> float | None:
    """The least time_weight · T + wire_weight · wires in steps and tiles, less the margin."""
    time = cp.Variable(pos=True)
    side = float(max(problem.width, problem.height))
    constraints: list[cp.Constraint] = []
    areas, wires = [], []
    ends = np.bincount(problem.edges.ravel(), minlength=problem.n)
    for t, convs in enumerate(problem.type_arrays):
        area = _kernel(np.asarray(convs, float), time, side, float(problem.memory), constraints)
        thin = cp.Variable(pos=True)
        constraints += [thin >= area / side, thin >= 2.0]
        areas.append(float((problem.types == t).sum()) * area)
        wires.append(float(ends[problem.types == t].sum()) / 2 * thin)
    constraints.append(sum(areas) <= float(problem.width * problem.height))
    joined = [wire for wire in wires if wire_weight]
    objective = time_weight * time + wire_weight * sum(joined) if joined else time_weight * time
    return _dual_value(cp.Problem(cp.Minimize(objective), constraints))


def _kernel(
    convs: np.ndarray, time: cp.Variable, side: float, memory: float, constraints: list[cp.Constraint]
) -> cp.Variable:
    """The area of one type, with its sizing among ``constraints``."""
    h, w, c, area = (cp.Variable(pos=True) for _ in range(4))
    k = cp.Variable(len(convs), pos=True)
    constraints += [h >= 1.0, w >= 1.0, c >= 1.0, k >= 1.0]
    for i, (H, W, R, S, C, K, T) in enumerate(convs.tolist()):
        rounds = cp.Variable(4, pos=True)
        needed = (H / h, W / w, C / c, K / k[i])
        constraints += [rounds >= 1.0, *(rounds[j] >= ratio for j, ratio in enumerate(needed))]
        constraints.append(time >= cp.prod(rounds) * (R * S / T**2))
        words = C * K * R * S / (c * k[i]) + (W + S - 1) * (H + R - 1) * K / (w * h * k[i])
        constraints.append(words <= memory)
    width, height = 3.0 * cp.sum(k), h * w * (c + 1.0)
    constraints += [width <= side, height <= side, area >= width * height]
    return area


def _dual_value(program: cp.Problem) -> float | None:
    """The dual value of the geometric program, less :data:`MARGIN` of it; None unless it is solved to optimality.

    The solver's objective is the logarithm of the program's, but for a constant.
    """
    data, chain, inverse = program.get_problem_data(cp.CLARABEL, gp=True, solver_opts={})
    raw = chain.solve_via_data(program, data)
    try:
        program.unpack_results(raw, chain, inverse)
    except cp.error.SolverError:
        return None
    if program.status != cp.OPTIMAL:
        return None
    return float(program.value) * float(np.exp(-abs(raw.obj_val - raw.obj_val_dual))) * (1 - MARGIN)
