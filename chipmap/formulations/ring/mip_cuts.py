"""C5 on demand: the sets and mappings that the user's function rejected, as rows of the MIP."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.built import Built
from chipmap.instances.ring.problem import ring_problem


def cut_rejected(
    model: Built, blocks: Sequence[tuple[frozenset[int], bool]], mappings: Sequence[dict[int, int]]
) -> None:
    """No chip holds exactly (monotone: at least) the operations of a block; no mapping is one of ``mappings``.

    Σ_{v in S} on[v, c] - Σ_{v not in S} on[v, c] <= |S| - 1 (the second sum for exact blocks only) for every chip c;
    Σ_v on[v, f(v)] <= n - 1. Replaces the cuts of an earlier call.
    """
    problem, block = ring_problem(model.instance), model.native.ring
    computing = np.flatnonzero(problem.computing).tolist()
    if hasattr(block, "cut_rejected"):
        block.del_component(block.cut_rejected)
    rows = block.cut_rejected = pyo.Constraint(pyo.Any)
    for number, (held, monotone) in enumerate(blocks):
        for c in range(problem.chips):
            look()
            others = [] if monotone else [v for v in computing if v not in held]
            left = pyo.quicksum(block.on[v, c] for v in held) - pyo.quicksum(block.on[v, c] for v in others)
            rows["block", number, c] = left <= len(held) - 1
    for number, chips in enumerate(mappings):
        look()
        left = pyo.quicksum(block.on[v, c] for v, c in chips.items()) if chips else block.period
        rows["mapping", number] = left <= len(chips) - 1
