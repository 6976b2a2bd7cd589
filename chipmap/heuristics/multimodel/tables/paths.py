"""The simple paths of a module, by the sequence of types of chiplets along them.

Chiplets on which everything costs the same are of one **type**. A path of linked chiplets has a **signature**, the
types along it; on a module of a few types many paths share one. What a model's segments cost in a window depends on the
signature alone. Which models can stand side by side depends on the chiplets, kept as masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chipmap.instances.multimodel.problem import IntArray, ModelCosts, MultiProblem

#: Chiplets up to which sets of them are listed, and paths up to which these are.
MOST_CHIPLETS, MOST_PATHS = 12, 200_000


@dataclass(frozen=True, eq=False)
class Paths:
    """The simple paths of a module by signature; signature s has one type more than ``parent[s]`` (−1: none).

    ``types`` [chiplets]; ``chiplet`` [types]: one chiplet of each. ``kind`` [signatures]: the last type.
    ``masks[s]``: sets of chiplets (bit c: chiplet c) of paths with signature s, ``ways[s]``: a path for each.
    ``group`` [signatures]: signatures whose masks are of equal use; groups go from the small to the large.
    ``below`` [groups, most], padded with −1: groups such that each mask of the group holds one of theirs.
    """

    types: IntArray
    chiplet: IntArray
    parent: IntArray
    kind: IntArray
    masks: tuple[IntArray, ...]
    ways: tuple[tuple[tuple[int, ...], ...], ...]
    group: IntArray
    below: IntArray

    @property
    def signatures(self) -> int:
        """Number of signatures."""
        return len(self.parent)

    @property
    def longest(self) -> int:
        """Chiplets of the longest path."""
        return len(self.types_of(self.signatures - 1))

    def types_of(self, s: int) -> tuple[int, ...]:
        """The types along signature s."""
        found = []
        while s >= 0:
            found.append(int(self.kind[s]))
            s = int(self.parent[s])
        return tuple(reversed(found))

    def costs(self, model: ModelCosts) -> ModelCosts:
        """The costs on each type: a column for each."""
        at = self.chiplet
        return replace(
            model,
            time=model.time[:, at],
            energy=model.energy[:, at],
            read_time=model.read_time[:, at],
            read_energy=model.read_energy[:, at],
            write_time=model.write_time[:, at],
            write_energy=model.write_energy[:, at],
            weight_energy=model.weight_energy[:, at],
        )

    def sram(self, problem: MultiProblem) -> IntArray:
        """The SRAM of each type, bytes."""
        return problem.sram[self.chiplet]

    def way(self, s: int, mask: int) -> tuple[int, ...]:
        """The path of signature s over the chiplets of ``mask``."""
        return self.ways[s][int(np.searchsorted(self.masks[s], mask))]


def types_of(problem: MultiProblem) -> IntArray:
    """The type of each chiplet: equal numbers where every cost and the SRAM are equal."""
    sram = [chiplet.sram_bytes for chiplet in problem.instance.module.chiplets]
    seen: dict[tuple[object, ...], int] = {}
    found = []
    for c in range(problem.chiplets):
        columns: list[object] = [sram[c]]
        for model in problem.models:
            for array in (model.time, model.energy, model.read_time, model.read_energy, model.write_time):
                columns.append(array[:, c].tobytes())
            columns += [model.write_energy[:, c].tobytes(), model.weight_energy[:, c].tobytes()]
        found.append(seen.setdefault(tuple(columns), len(seen)))
    return np.array(found, dtype=np.int64)


def module_paths(problem: MultiProblem) -> Paths | None:
    """All simple paths by signature; None where chiplets or paths are too many to list, and where times are too long
    for exact sums."""
    if problem.chiplets > MOST_CHIPLETS or problem.most_time >= 2**53:
        return None
    types = types_of(problem)
    most = min(problem.chiplets, max(model.layers for model in problem.models))
    found: dict[tuple[int, ...], dict[int, tuple[int, ...]]] = {}
    stack: list[tuple[int, ...]] = [(c,) for c in range(problem.chiplets)]
    count = 0
    while stack:
        path = stack.pop()
        count += 1
        if count > MOST_PATHS:
            return None
        found.setdefault(tuple(int(types[c]) for c in path), {}).setdefault(sum(1 << c for c in path), path)
        if len(path) < most:
            stack += [(*path, c) for c in problem.neighbours[path[-1]] if c not in path]
    signatures = sorted(found, key=lambda signature: (len(signature), signature))
    masks = [np.array(sorted(found[signature]), dtype=np.int64) for signature in signatures]
    group, below = _groups(masks)
    ways = tuple(
        tuple(found[signature][int(mask)] for mask in own) for signature, own in zip(signatures, masks, strict=True)
    )
    at = {signature: s for s, signature in enumerate(signatures)}
    return Paths(
        types=types,
        chiplet=np.array([int(np.argmax(types == k)) for k in range(int(types.max()) + 1)], dtype=np.int64),
        parent=np.array([at.get(signature[:-1], -1) for signature in signatures], dtype=np.int64),
        kind=np.array([signature[-1] for signature in signatures], dtype=np.int64),
        masks=tuple(masks),
        ways=ways,
        group=group,
        below=below,
    )


def _groups(masks: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """(group of each signature, direct smaller groups of each group), see :class:`Paths`."""
    families: dict[bytes, int] = {}
    group = np.array([families.setdefault(own.tobytes(), len(families)) for own in masks], dtype=np.int64)
    distinct = [np.frombuffer(family, dtype=np.int64) for family in families]
    below: list[set[int]] = []
    for g, own in enumerate(distinct):
        under = {
            h for h in range(g) if ((own[:, None] & distinct[h][None, :]) == distinct[h][None, :]).any(axis=1).all()
        }
        below.append(under - {i for h in under for i in below[h]})
    width = max((len(under) for under in below), default=0)
    rows = [[*sorted(under), *[-1] * (max(1, width) - len(under))] for under in below]
    return group, np.array(rows, dtype=np.int64)
