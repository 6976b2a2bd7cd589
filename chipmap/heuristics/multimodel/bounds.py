"""Lower bounds on T1 and T2 that hold for any number of windows, in closed form.

Let w(l) be the least time of layer l on any chiplet (:class:`chipmap.instances.multimodel.problem.ModelCosts`).

- A model's windows add up to at least Σ t + weights + (q − 1) · Σ_w max t. All its layers, the first read and the last
  write are in Σ t. The slowest segments add up to at least the slowest layer, and to Σ t over the number of segments,
  of which a window has at most one per chiplet.
- A chiplet runs one segment in a window and is busy for q · t of it, so that all windows last at least all work shared
  out evenly over the chiplets.
- Energy is a sum over layers, and static energy rises with T1.
- All first inputs, last outputs and weights pass DRAM, and the module's own channels from or to it.
"""

from __future__ import annotations

from chipmap.instances.multimodel.instance import MAX_TOTAL
from chipmap.instances.multimodel.problem import ModelCosts, MultiProblem


def least_latency(problem: MultiProblem, model: ModelCosts) -> int:
    """A lower bound on the sum of one model's latencies over its windows, in ns."""
    layers = model.time.min(axis=1)
    total = int(layers.sum() + model.read_time[0].min() + model.write_time[-1].min())
    segments = min(problem.chiplets, model.layers)
    slowest = max(int(layers.max()), -(-int(total) // segments))
    return total + int(model.weight_time.sum()) + (model.q - 1) * slowest


def least_time(problem: MultiProblem) -> int:
    """A lower bound on T1 in ns."""
    work = sum(model.q * int(model.time.min(axis=1).sum()) for model in problem.models)
    shared = problem.sharing.least if problem.sharing is not None else 0
    return max(shared, -(-work // problem.chiplets), *(least_latency(problem, model) for model in problem.models))


def least_energy(problem: MultiProblem) -> int:
    """A lower bound on T2 in pJ: each layer with its weights, the first read and the last write, each at its least, and
    static energy of the least T1."""
    own = sum(
        int(model.run_energy.min(axis=1).sum()) + int(model.read_energy[0].min()) + int(model.write_energy[-1].min())
        for model in problem.models
    )
    return problem.powered(least_time(problem), own)


def least_objective(problem: MultiProblem) -> int:
    """The objective at the least T1 and T2, in ticks: it falls in neither."""
    return problem.objective(least_time(problem), least_energy(problem))


def least_segments(problem: MultiProblem, model: ModelCosts) -> int:
    """The least number of segments in which the model's layers fit the largest SRAM, one layer after the other.

    A part of what fits does so as well: the longest segment each time gives the fewest. Each layer alone has to fit.
    """
    sizes = [chiplet.sram_bytes for chiplet in problem.instance.module.chiplets]
    room = max(MAX_TOTAL if size is None else size for size in sizes)
    count, weights, need = 1, 0, 0
    for own, most in zip(model.weights.tolist(), model.need.tolist(), strict=True):
        weights, need = weights + own, max(need, most)
        if weights + need > room:
            count, weights, need = count + 1, own, most
    return count


def longest_path(problem: MultiProblem) -> int:
    """An upper limit on the chiplets of one model in a window: the most that links join."""
    seen: set[int] = set()
    longest = 0
    for c in range(problem.chiplets):
        group = [] if c in seen else [c]
        seen.add(c)
        for chiplet in group:
            fresh = [near for near in problem.neighbours[chiplet] if near not in seen]
            seen.update(fresh)
            group += fresh
        longest = max(longest, len(group))
    return longest
