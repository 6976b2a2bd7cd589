"""What shrinks the step-time model without a loss: windows, operations that must share a device, equal devices.

And what shrinks both models with one: only placements near a given one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.placement.problem import IntArray, PlacementProblem

#: Links that treat all devices alike.
ALIKE = frozenset({"none", "pair", "bus", "duplex"})


@dataclass(frozen=True)
class Narrowing:
    """What holds in every schedule with T1 at most ``upper``.

    ``head``, ``tail``: operation v starts at head[v] or later and ends tail[v] or more before T1. ``part``: operations
    with the same number share a device, in that schedule. ``lower``: T1 is at least this.
    """

    upper: int
    head: tuple[int, ...]
    tail: tuple[int, ...]
    part: tuple[int, ...]
    lower: int = 0

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(set(self.part))


@dataclass(frozen=True, eq=False)
class NearPlacements:
    """Placements near one, whose devices are ``home`` [N] and, with step time, starts ``start`` [N] in ns.

    Operation v is on one of the devices ``allowed[v]`` [N, D]. At most ``moves`` groups of C1 are elsewhere than at
    home (None: any number). With step time, starts differ by ``shift`` ns at most (None: by any time), and with
    ``ordered`` operations that may only be at home keep their order there.
    """

    allowed: NDArray[np.bool_]
    home: IntArray
    start: IntArray | None = None
    moves: int | None = None
    shift: int | None = None
    ordered: bool = False

    def within(self, problem: PlacementProblem) -> PlacementProblem:
        """The problem with these devices only."""
        return replace(problem, allowed=problem.allowed & self.allowed)


def alike(problem: PlacementProblem) -> bool:
    """Whether any permutation of the devices makes a placement from a placement, as good and as valid."""
    system = problem.instance.system
    return (
        system.links is not None
        and not system.routes
        and system.links.kind in ALIKE
        and len({device.kind for device in system.devices}) == 1
        and len({device.memory_bytes for device in system.devices}) == 1
        and bool((problem.allowed == problem.allowed[:, :1]).all())
    )


def largest_first(problem: PlacementProblem, part: tuple[int, ...]) -> list[int]:
    """One operation of each part that shares a device, by falling work of the parts.

    Where devices are alike, the k-th one of these may be taken to be on one of the first k devices: number the devices
    by the first of these parts that they hold.
    """
    work = Counter[int]()
    for v, time in enumerate(problem.time.min(axis=1, initial=2**60).tolist()):
        work[part[v]] += time
    first = {number: v for v, number in reversed(list(enumerate(part)))}
    return [first[number] for number, _ in sorted(work.items(), key=lambda one: (-one[1], one[0]))]


def renumbered(devices: list[int], leaders: list[int], count: int) -> list[int]:
    """``devices`` of the operations, numbering the ``count`` devices by the first of ``leaders`` that they hold."""
    used = list(dict.fromkeys(devices[v] for v in leaders))
    order = [*used, *(d for d in range(count) if d not in used)]
    new = np.empty(count, dtype=np.int64)
    new[order] = np.arange(count)
    found: list[int] = new[devices].tolist()
    return found
