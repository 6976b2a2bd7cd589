"""Lower bounds on the weight of dropped frames: what no frame can do, and what all chiplets together can't do.

- **Least latency.** A frame takes at least the least sum of its segments' times over all paths of chiplets. If that
  passes its deadline, it is dropped. So are frames that follow a frame, by the sum of both.
- **Utilisation.** N(m) frames of model m keep chiplets busy for N(m) times the time of a frame, and chiplets of class k
  are busy for at most H each. With runs y(l, k) of each layer by class: Σ_k y(l, k) = N(m), and
  Σ time(l, k) · y(l, k) <= H · (chiplets of class k). The greatest Σ weight · N(m) with whole N(m) bounds the weight of
  frames that are met.

Energy is bounded in the same program where T2 has a limit.
"""

from __future__ import annotations

from math import floor, inf

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.multimodel.frames.timetable import Rated
from chipmap.instances.multimodel.problem import ModelCosts, MultiProblem
from chipmap.instances.multimodel.rates import ahead_of

#: What floating point may add to a value is taken off, as a share of it.
SAFE = 1e-7


def least_span(problem: MultiProblem, model: ModelCosts) -> int:
    """The least time of a frame's segments one after the other, in ns: a path through (layer, chiplet).

    Chiplets may come twice, and SRAM plays no part: both only make it less."""
    run = model.time + model.weight_time[:, None]
    at: NDArray[np.int64] = model.read_time[0] + run[0]
    for k in range(1, model.layers):
        sent = int(model.send_time[k - 1]) * (2 if problem.both_ends else 1)
        moved = [min((int(at[d]) for d in near), default=2**61) + sent for near in problem.neighbours]
        at = np.minimum(at, np.array(moved, dtype=np.int64)) + run[k]
    return int((at + model.write_time[-1]).min())


def possible(rated: Rated) -> list[bool]:
    """Whether each frame may be met, by its least latency and that of the frames that it follows."""
    problem = rated.problem
    least = [least_span(problem, model) for model in problem.models]
    fits = [_longest_layer(model) <= rated.length for model in problem.models]
    ends: dict[int, float] = {}

    def end(f: int) -> float:
        if f not in ends:
            frame, before = rated.frames[f], rated.before[f]
            begin = float(frame.release) if before is None else max(float(frame.release), end(before))
            done = begin + least[frame.m]
            ends[f] = done if done <= frame.due and fits[frame.m] else inf
        return ends[f]

    return [end(f) < inf for f in range(len(rated.frames))]


def _longest_layer(model: ModelCosts) -> int:
    """The layer that takes longest where it is fastest, in ns: no segment with it takes less."""
    return int((model.time + model.weight_time[:, None]).min(axis=1).max())


def dropped_at_once(rated: Rated) -> int:
    """The weight of frames that can't be met."""
    return sum(weight for weight, can in zip(rated.weights, possible(rated), strict=True) if not can)


def dropped_by_utilisation(rated: Rated) -> int:
    """The least weight of dropped frames by the times of all chiplets, and energies."""
    total = sum(rated.weights)
    return max(dropped_at_once(rated), total - floor(most_met(rated)[0] * (1 + SAFE) + SAFE))


def most_met(rated: Rated, capacity: float = 1.0) -> tuple[float, list[int]]:
    """An upper bound on Σ weight · N(m), and the N(m) of the program's best solution.

    Chiplets are busy for at most ``capacity`` · H: below 1 it is no bound, but frames that are easier to place."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    problem, can = rated.problem, possible(rated)
    chiplets, models = problem.instance.module.chiplets, problem.instance.models
    kinds = sorted({chiplet.kind for chiplet in chiplets})
    members = [[c for c, chiplet in enumerate(chiplets) if chiplet.kind == kind] for kind in kinds]
    most = [sum(can[f] for f, frame in enumerate(rated.frames) if frame.m == m) for m in range(len(models))]
    rows = Rows(len(models) + sum(model.layers for model in problem.models) * len(kinds))
    busy, spent = [dict[int, float]() for _ in kinds], dict[int, float]()
    column = len(models)
    for m, model in enumerate(problem.models):
        spent[m] = float(model.read_energy[0].min() + model.write_energy[-1].min())
        for k in range(model.layers):
            shares = {}
            for which, own in enumerate(members):
                time = model.time[k, own] + int(model.weight_time[k])
                time = time + (model.read_time[0, own] if k == 0 else 0)
                time = time + (model.write_time[-1, own] if k == model.layers - 1 else 0)
                busy[which][column] = float(time.min()) / rated.length
                spent[column] = float(model.run_energy[k, own].min())
                shares[column] = 1.0
                column += 1
            rows.add({**shares, m: -1.0}, 0.0, 0.0)
    for own, row in zip(members, busy, strict=True):
        rows.add(row, -inf, capacity * len(own))
    for m, before in enumerate(ahead_of(problem.instance)):
        if before is not None:
            rows.add({m: 1.0, before: -1.0}, -inf, 0.0)
    limit = problem.instance.task.energy_limit_pj
    if limit is not None:
        scale = max(1.0, float(limit), *spent.values())
        rows.add({at: value / scale for at, value in spent.items()}, -inf, limit / scale * (1 + SAFE))
    upper = np.full(rows.columns, float(max(most, default=0)))
    upper[: len(models)] = most
    cost, whole = np.zeros(rows.columns), np.zeros(rows.columns)
    cost[: len(models)] = [-model.frame_weight for model in models]
    whole[: len(models)] = 1
    matrix = coo_array((rows.values, (rows.row, rows.at)), shape=(len(rows.low), rows.columns)).tocsr()
    found = milp(
        cost,
        integrality=whole,
        bounds=Bounds(np.zeros(rows.columns), upper),
        constraints=LinearConstraint(matrix, np.array(rows.low), np.array(rows.high)),
        options={"node_limit": 2_000},
    )
    counts = [0] * len(models) if found.x is None else [round(one) for one in found.x[: len(models)]]
    if found.mip_dual_bound is None or not np.isfinite(found.mip_dual_bound):
        return float(sum(n * model.frame_weight for n, model in zip(most, models, strict=True))), counts
    return -float(found.mip_dual_bound), counts


class Rows:
    """The rows of a program over ``columns`` variables."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.values, self.row, self.at = list[float](), list[int](), list[int]()
        self.low, self.high = list[float](), list[float]()

    def add(self, row: dict[int, float], low: float, high: float) -> None:
        """``low`` <= Σ value · variable <= ``high``."""
        self.values += row.values()
        self.at += row
        self.row += [len(self.low)] * len(row)
        self.low.append(low)
        self.high.append(high)
