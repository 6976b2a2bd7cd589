"""What the MIPs of windows and of frames share: the layered flow without big-M, and what it alone states.

Statement: ``docs/families/multimodel-models.md``. Times are in units of ``block.time_unit`` ns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.built import unit
from chipmap.formulations.multimodel.choices import places
from chipmap.instances.multimodel.pinned import pinned
from chipmap.instances.multimodel.problem import MultiProblem


def def_places(block: pyo.Block, problem: MultiProblem) -> None:
    """x binary; ``start``, ``end``, ``stay`` and ``move`` follow from it, so that they are continuous.

    ``runs[m, l, w]`` = Σ_c x[m, l, w, c].
    """
    listed = list(places(problem))
    inner = [key for key in listed if key[1] < problem.models[key[0]].layers - 1]
    block.x = pyo.Var(listed, domain=pyo.Binary)
    block.start, block.end = pyo.Var(listed, bounds=(0, 1)), pyo.Var(listed, bounds=(0, 1))
    block.stay = pyo.Var(inner, bounds=(0, 1))
    block.move = pyo.Var([(*key, d) for key in inner for d in problem.neighbours[key[3]]], bounds=(0, 1))
    chiplets = range(problem.chiplets)
    block.runs = pyo.Expression(
        sorted({key[:3] for key in listed}), rule=lambda b, m, k, w: pyo.quicksum(b.x[m, k, w, c] for c in chiplets)
    )


def c3_path(block: pyo.Block, problem: MultiProblem) -> None:
    """C3: x = start + stay + moves in = end + stay + moves out, with moves along links only."""
    rows = block.c3_path = pyo.Constraint(pyo.Any)
    for m, k, w, c in places(problem):
        look()
        near, last = problem.neighbours[c], k == problem.models[m].layers - 1
        came = block.start[m, k, w, c]
        if k:
            came += block.stay[m, k - 1, w, c] + pyo.quicksum(block.move[m, k - 1, w, d, c] for d in near)
        left = block.end[m, k, w, c]
        if not last:
            left += block.stay[m, k, w, c] + pyo.quicksum(block.move[m, k, w, c, d] for d in near)
        rows[m, k, w, c, "in"] = block.x[m, k, w, c] == came
        rows[m, k, w, c, "out"] = block.x[m, k, w, c] == left


def c1_chain(block: pyo.Block, problem: MultiProblem) -> None:
    """C1: Σ_w runs[m, l, w] = 1; layer l + 1 is in no earlier window than l, and starts no range where l runs."""
    rows = block.c1_chain = pyo.Constraint(pyo.Any)
    for m, model in enumerate(problem.models):
        for k in range(model.layers):
            look()
            rows[m, k] = pyo.quicksum(block.runs[m, k, w] for w in range(problem.windows)) == 1
        for k in range(model.layers - 1):
            look()
            for w in range(problem.windows):
                starts = pyo.quicksum(block.start[m, k + 1, w, c] for c in range(problem.chiplets))
                rows[m, k, w, "start"] = starts + block.runs[m, k, w] <= 1
                if w < problem.windows - 1:
                    until = range(w + 1)
                    rows[m, k, w] = pyo.quicksum(block.runs[m, k + 1, v] for v in until) <= pyo.quicksum(
                        block.runs[m, k, v] for v in until
                    )


def c5_memory(block: pyo.Block, problem: MultiProblem) -> None:
    """C5: Σ_l weights(l) · x + b · (in + out)(l') · x[l'] <= SRAM for each l', where the chiplet has a limit.

    x[l'] may be 0: then the row still holds, as it leaves out only what isn't there.
    """
    rows = block.c5_memory = pyo.Constraint(pyo.Any)
    for c, chiplet in enumerate(problem.instance.module.chiplets):
        if chiplet.sram_bytes is None:
            continue
        for m, model in enumerate(problem.models):
            look()
            scale = unit(int(model.weights.sum()) + int(model.need.max()) + chiplet.sram_bytes)
            for w in range(problem.windows):
                held = pyo.quicksum(int(model.weights[k]) / scale * block.x[m, k, w, c] for k in range(model.layers))
                for k in range(model.layers):
                    buffers = int(model.need[k]) / scale * block.x[m, k, w, c]
                    rows[m, k, w, c] = held + buffers <= chiplet.sram_bytes / scale


def c6_pins(block: pyo.Block, problem: MultiProblem) -> None:
    """C6: Σ_w x[m, l, w, c] = 0 off a layer's chiplets, equal within a group, at most 1 over layers apart."""
    asked, rows = pinned(problem), pyo.Constraint(pyo.Any)
    block.c6_pins = rows
    assert asked is not None

    def on(layer: tuple[int, int], c: int) -> Any:
        look()
        return pyo.quicksum(block.x[*layer, w, c] for w in range(problem.windows))

    for m, allowed in enumerate(asked.allowed):
        for k, c in zip(*np.nonzero(~allowed), strict=True):
            rows["off", m, int(k), int(c)] = on((m, int(k)), int(c)) == 0
    for c in range(problem.chiplets):
        for g, (first, *others) in enumerate(asked.groups):
            for i, other in enumerate(others):
                rows["together", g, i, c] = on(other, c) - on(first, c) == 0
        for g, group in enumerate(asked.apart):
            rows["apart", g, c] = pyo.quicksum(on(layer, c) for layer in group) <= 1


def layer_time(block: pyo.Block, problem: MultiProblem, m: int, k: int, w: int, c: int) -> Any:
    """What layer k adds to t[m, w, c], with the transfers beside it, in units of ``block.time_unit``."""
    model, scale = problem.models[m], block.time_unit
    parts = [
        int(model.time[k, c]) / scale * block.x[m, k, w, c],
        int(model.read_time[k, c]) / scale * block.start[m, k, w, c],
        int(model.write_time[k, c]) / scale * block.end[m, k, w, c],
    ]
    for d in problem.neighbours[c]:
        if k < model.layers - 1:
            parts.append(int(model.send_time[k]) / scale * block.move[m, k, w, c, d])
        if k and problem.both_ends:
            parts.append(int(model.send_time[k - 1]) / scale * block.move[m, k - 1, w, d, c])
    return pyo.quicksum(parts)
