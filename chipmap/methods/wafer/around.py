"""Sequences of kernels around obstacles: floorplans at shorter and shorter times.

Kernels are placed in sequence, each in the box and the corner of least cost
(:mod:`chipmap.heuristics.wafer.obstructed`).
Sequences are annealed as on a fabric without obstacles (:func:`.sequences.anneal`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipmap.deadline import Deadline
from chipmap.heuristics.wafer.obstructed import Builder, Fronts
from chipmap.instances.wafer.instance import Placement
from chipmap.instances.wafer.problem import WaferProblem, size
from chipmap.methods.wafer.sequences import Packed, anneal

#: Boxes that are placed at one time before a longer one is tried.
BOXES = 3000
#: How much shorter the next time is at first, and the least that is tried.
CUT, LEAST_CUT = 0.1, 0.003


class Around:
    """The packer of one problem at one time ``tau`` (the interface of :class:`.sequences.Sequences`). ``good`` is the
    last sequence that left no kernel out, and the first one to be tried."""

    def __init__(
        self, problem: WaferProblem, fronts: Fronts, tau: int, good: Sequence[int], deadline: Deadline
    ) -> None:
        self.problem, self.fronts, self.tau, self.good, self.deadline = problem, fronts, tau, list(good), deadline
        listed = [fronts.of(t, tau) for t in range(len(problem.type_arrays))]
        self.least = [min((a * b for a, b in map(size, boxes)), default=0) for boxes in listed]
        self.able = all(listed)
        self.made: list[Placement] | None = None

    def orders(self) -> Iterator[list[int]]:
        """The last good one; the largest first."""
        yield self.good
        yield sorted(self.good, key=lambda v: -self.least[int(self.problem.types[v])])

    def pack(self, order: Sequence[int], lower: float) -> Packed:
        """The kernels in ``order``; one that fits nowhere is left out."""
        builder, left = Builder(self.problem, self.fronts, 1, self.deadline), 0
        for v in order:
            if not builder.put(v, self.tau, lower):
                left += self.least[int(self.problem.types[v])]
        if not left:
            self.good, self.made = list(order), builder.whole()
        return Packed({}, {}, left)

    def placements(self, packed: Packed) -> list[Placement] | None:
        """The floorplan of the last packing that left nothing out; None where it breaks C4, C6 or C7."""
        return self.made


def shorter(
    problem: WaferProblem, placements: Sequence[Placement], seed: int, deadline: Deadline
) -> Iterator[list[Placement]]:
    """Floorplans of shorter and shorter times than that of ``placements``, until none is found or the time is up.

    Raises :class:`chipmap.deadline.Stop` at the deadline.
    """
    time = max(problem.time_of(v, p) for v, p in enumerate(placements))
    order = sorted(range(problem.n), key=lambda v: (placements[v].y, placements[v].x))
    fronts, cut = Fronts(problem), CUT
    while cut >= LEAST_CUT and time > 1:
        deadline.check()
        packer = Around(problem, fronts, min(int(time * (1 - cut)), time - 1), order, deadline)
        found = anneal(packer, seed, BOXES // problem.n, deadline) if packer.able else None
        if found is None:
            cut /= 2
            continue
        order, time = packer.good, max(problem.time_of(v, p) for v, p in enumerate(found))
        yield found
