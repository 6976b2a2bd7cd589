"""What the CP-SAT models of windows and of frames share: the layered flow of literals, and what it alone states.

Statement: ``docs/families/multimodel-models.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from chipmap.formulations.cpsat import LabelledModel
from chipmap.formulations.multimodel.choices import places
from chipmap.instances.multimodel.pinned import pinned
from chipmap.instances.multimodel.problem import MultiProblem


class Builder(LabelledModel):
    """The model on its way: literals of the flow, and what they add up to."""

    def __init__(self, model: cp_model.CpModel, problem: MultiProblem, prefix: str, assume: bool) -> None:
        super().__init__(model, prefix, assume)
        self.problem = problem
        listed = list(places(problem))
        inner = [key for key in listed if key[1] < problem.models[key[0]].layers - 1]
        self.x, self.start, self.end = (
            {key: self.literal(f"{name}{list(key)}") for key in listed} for name in ("x", "start", "end")
        )
        self.stay = {key: self.literal(f"stay{list(key)}") for key in inner}
        self.move = {(*key, d): self.literal(f"move{[*key, d]}") for key in inner for d in self.near(key[3])}
        self.window: list[Any] = []
        self.bottleneck: dict[tuple[int, int], Any] = {}
        self.latency: dict[tuple[int, int], Any] = {}
        self.segment: dict[tuple[int, int, int], Any] = {}
        self.shared: dict[int, Any] = {}
        self.time: Any = 0
        self.energy: Any = 0

    def near(self, c: int) -> tuple[int, ...]:
        """The chiplets to which a model may move from c; all others where C3 is assumed, which then keeps to links."""
        return tuple(d for d in range(self.problem.chiplets) if d != c) if self.assume else self.problem.neighbours[c]

    def runs(self, m: int, k: int, w: int) -> Any:
        """[layer k of model m runs in window w]."""
        return sum(self.x[m, k, w, c] for c in range(self.problem.chiplets))


def c3_path(builder: Builder) -> None:
    """C3: x = start + stay + moves in = end + stay + moves out, with moves along links only."""
    problem = builder.problem
    for m, k, w, c in places(problem):
        near, last = builder.near(c), k == problem.models[m].layers - 1
        came, left = [builder.start[m, k, w, c]], [builder.end[m, k, w, c]]
        if k:
            came += [builder.stay[m, k - 1, w, c], *(builder.move[m, k - 1, w, d, c] for d in near)]
        if not last:
            left += [builder.stay[m, k, w, c], *(builder.move[m, k, w, c, d] for d in near)]
        for flow in (came, left):
            builder.model.add(sum(flow) == builder.x[m, k, w, c])
    for (*_, c, d), move in builder.move.items():
        if d not in problem.neighbours[c]:
            builder.enforce("c3_path", builder.model.add(move == 0))


def c1_chain(builder: Builder) -> None:
    """C1: one place per layer; layer l + 1 is in no earlier window than l, and starts no range where l runs."""
    problem = builder.problem
    for m, model in enumerate(problem.models):
        for k in range(model.layers):
            everywhere = sum(builder.runs(m, k, w) for w in range(problem.windows))
            builder.enforce("c1_chain", builder.model.add(everywhere == 1))
        for k in range(model.layers - 1):
            for w in range(problem.windows):
                starts = [builder.start[m, k + 1, w, c] for c in range(problem.chiplets)]
                builder.enforce("c1_chain", builder.model.add(sum(starts) + builder.runs(m, k, w) <= 1))
                later = sum(builder.runs(m, k + 1, v) for v in range(w + 1))
                earlier = sum(builder.runs(m, k, v) for v in range(w + 1))
                builder.enforce("c1_chain", builder.model.add(later <= earlier))


def c5_memory(builder: Builder) -> None:
    """C5: Σ_l weights(l) · x + b · (in + out)(l') · x[l'] <= SRAM for each l', where the chiplet has a limit."""
    problem = builder.problem
    for c, chiplet in enumerate(problem.instance.module.chiplets):
        if chiplet.sram_bytes is None:
            continue
        for m, model in enumerate(problem.models):
            for w in range(problem.windows):
                held = sum(int(model.weights[k]) * builder.x[m, k, w, c] for k in range(model.layers))
                for k in range(model.layers):
                    need = held + int(model.need[k]) * builder.x[m, k, w, c]
                    builder.enforce("c5_memory", builder.model.add(need <= chiplet.sram_bytes))


def c6_pins(builder: Builder) -> None:
    """C6: Σ_w x[m, l, w, c] = 0 off a layer's chiplets, equal within a group, at most 1 over layers apart."""
    problem, asked = builder.problem, pinned(builder.problem)
    assert asked is not None

    def on(layer: tuple[int, int], c: int) -> Any:
        return sum(builder.x[*layer, w, c] for w in range(problem.windows))

    for m, allowed in enumerate(asked.allowed):
        for k, c in zip(*np.nonzero(~allowed), strict=True):
            builder.enforce("c6_pins", builder.model.add(on((m, int(k)), int(c)) == 0))
    for c in range(problem.chiplets):
        for first, *others in asked.groups:
            for other in others:
                builder.enforce("c6_pins", builder.model.add(on(other, c) == on(first, c)))
        for group in asked.apart:
            builder.enforce("c6_pins", builder.model.add(sum(on(layer, c) for layer in group) <= 1))


def layer_time(builder: Builder, m: int, k: int, w: int, c: int) -> Any:
    """What layer k adds to t[m, w, c], with the transfers beside it, in ns."""
    problem, key = builder.problem, (m, k, w, c)
    model = problem.models[m]
    parts = [
        int(model.time[k, c]) * builder.x[key],
        int(model.read_time[k, c]) * builder.start[key],
        int(model.write_time[k, c]) * builder.end[key],
    ]
    for d in builder.near(c):
        if k < model.layers - 1:
            parts.append(int(model.send_time[k]) * builder.move[m, k, w, c, d])
        if k and problem.both_ends:
            parts.append(int(model.send_time[k - 1]) * builder.move[m, k - 1, w, d, c])
    return sum(parts)
