"""What each device computes and transfers per sample, for objective ``throughput``."""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.offload import as_placed
from chipmap.instances.placement.problem import PlacementProblem


@dataclass(frozen=True)
class Load:
    """A device: its ``operations``, ``work`` = Σ p, ``sent`` = Σ c of the storages that cross its boundary, and both.

    ``sent`` is 0 for a device that pays no transfers. ``total`` is the larger one with ``task.overlap``. ``largest``:
    (c, producer) of the storage with the greatest c, None without any.
    """

    operations: int
    work: int
    sent: int
    total: int
    largest: tuple[int, int] | None = None


def loads(problem: PlacementProblem, solution: PlacementSolution) -> list[Load]:
    """The load of each device.

    Raises :class:`InputError` where an operation has no device of the instance.
    """
    problem, solution = as_placed(problem, solution)
    device, storages = problem.devices_of(solution).tolist(), problem.storages
    count, work, sent = [0] * problem.devices, [0] * problem.devices, [0] * problem.devices
    largest: list[tuple[int, int] | None] = [None] * problem.devices
    for v, d in enumerate(device):
        count[d] += 1
        work[d] += int(problem.time[v, d])
    for s, u in enumerate(storages.producer.tolist()):
        touched = {device[u], *(device[v] for v in storages.read_by(s))}
        for d in touched if len(touched) > 1 else ():
            if problem.paying[d]:
                cost = int(storages.time[s, 0])
                sent[d] += cost
                largest[d] = max(largest[d] or (-1, -1), (cost, u))
    both = max if problem.instance.task.overlap else lambda a, b: a + b
    return [Load(count[d], work[d], sent[d], both(work[d], sent[d]), largest[d]) for d in range(problem.devices)]
