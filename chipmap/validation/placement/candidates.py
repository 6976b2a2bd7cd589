"""All placements of a tiny instance of family ``placement``, for brute force.

Every operation is put on every device that it may run on (C0), with its weights there or, where the task has a rate for
it, on the host. With objective ``step_time`` each such choice has all
its schedules in which nothing can begin earlier by itself. Such a schedule is found by adding operations and transfers
in the order of their starts. What is added starts when its inputs are there and its device or channels are free. Where
memory is limited over time, it may also wait for a later end that frees bytes where it needs some. One of these
schedules is optimal: begin each job of an optimal one as early as the others allow, and its start is such a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product

from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution, Transfer, allowed_devices
from chipmap.validation.placement.facts import Facts

#: No more candidates than this are counted.
MOST = 100_000


def count(instance: PlacementInstance) -> int:
    """The number of candidates; above :data:`MOST` they aren't counted, and it is a number that no test takes."""
    facts, ways = Facts(instance), 1
    allowed = allowed_devices(instance)
    for v in facts.placed:
        ways *= len(allowed[facts.names[v]]) * (1 + (v in _fetchable(facts)))
        if ways > MOST:
            return 10**9
    found = sum(1 for _ in islice(candidates(instance), MOST))
    return found if found < MOST else 10**9


def candidates(instance: PlacementInstance) -> Iterator[PlacementSolution]:
    """Every choice of devices with its schedules."""
    facts, allowed = Facts(instance), allowed_devices(instance)
    names = [facts.names[v] for v in facts.placed]
    choices = [[d for d in facts.devices if d in allowed[name]] for name in names]
    for chosen in product(*choices):
        devices = dict(zip(names, chosen, strict=True))
        for fetches in product(*([False, True] for _ in _fetchable(facts))):
            fetched = {v for v, does in zip(_fetchable(facts), fetches, strict=True) if does}
            if instance.task.objective == "throughput":
                named = tuple(facts.names[v] for v in sorted(fetched))
                yield PlacementSolution(instance=instance.name, devices=devices, fetched=named)
            else:
                yield from _schedules(facts, devices, fetched)


def _fetchable(facts: Facts) -> list[int]:
    """The operations that may fetch their weights."""
    offload = facts.instance.task.fetch_bytes_per_ns is not None
    return [v for v in facts.placed if offload and facts.graph.operations[v].weight_bytes > 0]


@dataclass
class Job:
    """An operation, or the transfer of a tensor to a device.

    ``before``: jobs that must have ended; ``holds``: device or channels, held ``rest`` longer than ``time``.
    ``fills``: the device on which it allocates bytes; ``frees``: the devices on which its end may free some.
    """

    key: tuple[str, int, str]
    time: int
    rest: int
    before: list[int]
    holds: list[str] = field(default_factory=list)
    fills: str = ""
    frees: list[str] = field(default_factory=list)


def _jobs(facts: Facts, devices: dict[str, str], fetched: set[int]) -> list[Job] | None:
    """The jobs of a choice of devices and fetched weights; None where a route is missing."""
    jobs: list[Job] = []
    at: dict[int, int] = {}
    for v in facts.graph.topological_order():
        if v in facts.placed:
            device = devices[facts.names[v]]
            gap, time = facts.classes[facts.devices[device].kind].gap_ns, facts.time(v, device)
            time += facts.fetch(v) if v in fetched else 0
            at[v] = len(jobs)
            jobs.append(Job(("operation", v, ""), time, gap if time else 0, [], [f"device {device}"], device, [device]))
    for one in facts.storages:
        home = devices[facts.names[one.producer]]
        sent: dict[str, int] = {}
        for v in one.readers:
            target = devices[facts.names[v]]
            if target == home:
                jobs[at[v]].before.append(at[one.producer])
                continue
            if target not in sent:
                if (route := facts.routes.get((home, target))) is None:
                    return None
                sent[target], time = len(jobs), facts.send(one, route)
                holds = [f"channel {name}" for name in route.channels]
                job = Job(("transfer", one.tensor, target), time, route.gap_ns, [at[one.producer]], holds)
                job.fills, job.frees = target, [home]
                jobs.append(job)
            jobs[at[v]].before.append(sent[target])
    return jobs


def _schedules(facts: Facts, devices: dict[str, str], fetched: set[int]) -> Iterator[PlacementSolution]:
    """The schedules of one choice of devices and fetched weights; none where a route is missing."""
    jobs = _jobs(facts, devices, fetched)
    if jobs is None:
        return
    waits = facts.instance.task.memory == "live" and any(
        device.memory_bytes is not None for device in facts.devices.values()
    )
    seen = set[tuple[int, ...]]()
    for starts in _orders(jobs, [-1] * len(jobs), {}, 0, waits):
        if starts not in seen:
            seen.add(starts)
            operations = {facts.names[job.key[1]]: s for job, s in zip(jobs, starts, strict=True) if not job.key[2]}
            moves = [
                Transfer(tensor=job.key[1], to=job.key[2], start=s)
                for job, s in zip(jobs, starts, strict=True)
                if job.key[2]
            ]
            made = PlacementSolution(instance=facts.instance.name, devices=devices, start=operations)
            yield made.replace(transfers=tuple(moves), fetched=tuple(facts.names[v] for v in sorted(fetched)))


def _orders(
    jobs: list[Job], starts: list[int], free: dict[str, int], last: int, waits: bool
) -> Iterator[tuple[int, ...]]:
    """The starts of all jobs, where those with a start >= 0 are fixed and none of the others begins before ``last``."""
    left = [j for j, start in enumerate(starts) if start < 0]
    if not left:
        yield tuple(starts)
    for j in left:
        job = jobs[j]
        if any(starts[i] < 0 for i in job.before):
            continue
        held = job.time + job.rest > 0
        earliest = max((starts[i] + jobs[i].time for i in job.before), default=0)
        earliest = max(earliest, *(free.get(name, 0) if held else 0 for name in job.holds)) if job.holds else earliest
        times = {earliest}
        if waits:
            ends = (
                s + other.time for other, s in zip(jobs, starts, strict=True) if s >= 0 and job.fills in other.frees
            )
            times |= {end for end in ends if end > earliest}
        for start in sorted(times):
            if start >= last:
                starts[j] = start
                taken = dict.fromkeys(job.holds, start + job.time + job.rest) if held else {}
                yield from _orders(jobs, starts, free | taken, start, waits)
                starts[j] = -1
