"""C5 on demand: the sets and mappings that the user's function rejected, as rows of the CP-SAT model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chipmap.formulations.built import Built
from chipmap.formulations.ring.cpsat_assignment import no
from chipmap.instances.ring.problem import ring_problem


def cut_rejected(
    model: Built, blocks: Sequence[tuple[frozenset[int], bool]], mappings: Sequence[dict[int, int]]
) -> None:
    """No chip holds exactly (monotone: at least) the operations of a block; no mapping is one of ``mappings``.

    Exactly S on c: all of S are on c, and nobody else is. Adds all of them: use a fresh model for each call.
    """
    problem = ring_problem(model.instance)
    on = model.variables.on
    computing = np.flatnonzero(problem.computing).tolist()
    for block, monotone in blocks:
        for c in range(problem.chips):
            literals = [no(on(v, c)) for v in sorted(block)]
            if any(literal is True for literal in literals):
                continue
            if not monotone:
                literals += [on(v, c) for v in computing if v not in block]
            _clause(model, literals)
    for chips in mappings:
        _clause(model, [no(on(v, c)) for v, c in chips.items()])


def _clause(model: Built, literals: list[Any]) -> None:
    if not any(literal is True for literal in literals):
        model.native.add_bool_or([literal for literal in literals if literal is not False])
