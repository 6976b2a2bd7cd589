"""The changes of a dataflow instance that ``explain`` solves: a resource twice as fast or free, or alone; no limit; a
choice that the task makes left to the solver.

Each is an instance of its own, which is solved and checked as any other, but for the pipeline without a bubble.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from chipmap.instances.dataflow.instance import INTERLEAVED, DataflowInstance
from chipmap.instances.dataflow.plans import allowed_degrees, offered_keeps
from chipmap.records import InputError

#: The highest rate that an instance may state, in bytes/ns, TFLOP/s or GHz: what is free runs at it, so that a kernel
#: or tensor still takes a picosecond, to which all times are rounded up. The most SRAM and DRAM.
FASTEST, MOST_SRAM, MOST_DRAM = 1e12, 10**15, 10**18
#: Of a rate: twice as fast, or free.
TWICE, FREE = 2.0, float("inf")


class DataflowTrial(NamedTuple):
    """A changed instance: the ``kind`` of change, ``what`` it is in words, what ``--set`` takes for it (where one
    setting can say it); the ``resource`` and ``label`` that it is about. Without ``bubble`` its pipeline is always
    full.
    """

    kind: str
    what: str
    resource: str
    label: str
    instance: DataflowInstance
    setting: str = ""
    bubble: bool = True


class Resource(NamedTuple):
    """A resource: in words, its term or constraint, and the instance with a factor as much of it."""

    name: str
    label: str
    make: Callable[[DataflowInstance, float], tuple[DataflowInstance, str]]
    twice: str = "at twice the rate"
    free: str = "free"


def changes(instance: DataflowInstance, infeasible: bool) -> list[DataflowTrial]:
    """All changes that are tried, those first that say most; of an ``infeasible`` instance those that allow more."""
    sizes, rates = list(_sizes(instance)), [] if infeasible else list(_rates(instance))
    found = [_of(one, instance, TWICE) for one in (*rates, *sizes)]
    found += [] if infeasible else list(_left_out(instance))
    found += [_of(one, instance, FREE) for one in (*sizes, *rates)]
    found += [] if infeasible else list(_alone(instance, rates))
    found += list(_choices(instance))
    return [one for one in found if (one.instance != instance or not one.bubble) and _valid(one.instance)]


def _of(one: Resource, instance: DataflowInstance, factor: float) -> DataflowTrial:
    """A resource with a factor as much of it."""
    changed, setting = one.make(instance, factor)
    words = one.twice if factor == TWICE else one.free
    return DataflowTrial(
        "twice" if factor == TWICE else "free", f"{one.name} {words}", one.name, one.label, changed, setting
    )


def _valid(instance: DataflowInstance) -> bool:
    try:
        instance.check()
    except InputError:
        return False
    return True


def _scaled(value: float, factor: float) -> float:
    return min(FASTEST, value * factor)


def _one(path: str, value: Any, only: bool = True) -> str:
    """What ``--set`` takes, where ``only`` one number changes."""
    return f"{path}={json.dumps(value)}" if only else ""


def _rates(instance: DataflowInstance) -> Iterator[Resource]:
    """What takes time: compute, DRAM, links, latency, launches."""
    chip, network = instance.system.chip, instance.system.network
    yield Resource("compute", "T1", _compute)
    if chip.vector_tflops is not None and any(one.kind == "elementwise" for one in instance.workload.kernels):
        yield Resource("vector units", "T1", _vector)
    yield Resource("DRAM", "T2", _dram)
    used = [i for i, one in enumerate(network) if one.size > 1]
    if used:
        yield Resource("all links" if len(used) > 1 else "links", "T3", _links(used))
    for i in used if len(used) > 1 else ():
        one = network[i]
        words = f"links of dimension {i} ({one.size} chips, {one.topology}, {one.bytes_per_ns:g} bytes/ns)"
        yield Resource(words, "T3", _links([i]))
    if any(network[i].latency_ns for i in used):
        yield Resource("latency of links", "T3", _latency, "halved", "zero")
    if chip.launch_ns:
        yield Resource("launches", "T4", _launch, "in half the time", "free")


def _sizes(instance: DataflowInstance) -> Iterator[Resource]:
    """What limits: DRAM and SRAM."""
    if instance.system.memory.capacity_bytes is not None:
        yield Resource("DRAM capacity", "C6", _capacity, "doubled", "without limit")
    yield Resource("SRAM", "C2", _sram, "doubled", "without limit")


def _compute(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    chip = instance.system.chip
    peaks = {name: _scaled(peak, factor) for name, peak in chip.peaks.items()}
    fields: dict[str, Any] = {"peaks": peaks}
    field = "ghz" if chip.tflops is None else "tflops"
    fields[field] = _scaled(getattr(chip, field), factor)
    if chip.vector_tflops is not None:
        fields["vector_tflops"] = _scaled(chip.vector_tflops, factor)
    only = not peaks and chip.vector_tflops is None
    return _chipped(instance, **fields), _one(f"system.chip.{field}", fields[field], only)


def _vector(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    rate = _scaled(instance.system.chip.vector_tflops or 0.0, factor)
    return _chipped(instance, vector_tflops=rate), _one("system.chip.vector_tflops", rate)


def _dram(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    rate = _scaled(instance.system.memory.bytes_per_ns, factor)
    return _stored(instance, bytes_per_ns=rate), _one("system.memory.bytes_per_ns", rate)


def _links(which: list[int]) -> Callable[[DataflowInstance, float], tuple[DataflowInstance, str]]:
    def make(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
        network = list(instance.system.network)
        for i in which:
            network[i] = network[i].replace(bytes_per_ns=_scaled(network[i].bytes_per_ns, factor))
        path, rate = f"system.network.{which[0]}.bytes_per_ns", network[which[0]].bytes_per_ns
        return _networked(instance, network), _one(path, rate, len(which) == 1)

    return make


def _latency(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    network = [one.replace(latency_ns=one.latency_ns / factor) for one in instance.system.network]
    late = [i for i, one in enumerate(instance.system.network) if one.latency_ns]
    path = f"system.network.{late[0]}.latency_ns"
    return _networked(instance, network), _one(path, network[late[0]].latency_ns, len(late) == 1)


def _launch(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    launch = instance.system.chip.launch_ns / factor
    return _chipped(instance, launch_ns=launch), _one("system.chip.launch_ns", launch)


def _capacity(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    held = instance.system.memory.capacity_bytes or 0
    most = None if factor == FREE else min(MOST_DRAM, 2 * held)
    return _stored(instance, capacity_bytes=most), _one("system.memory.capacity_bytes", most)


def _sram(instance: DataflowInstance, factor: float) -> tuple[DataflowInstance, str]:
    most = MOST_SRAM if factor == FREE else min(MOST_SRAM, 2 * instance.system.chip.sram_bytes)
    return _chipped(instance, sram_bytes=most), _one("system.chip.sram_bytes", most)


def _chipped(instance: DataflowInstance, **fields: Any) -> DataflowInstance:
    system = instance.system
    return instance.replace(system=system.replace(chip=system.chip.replace(**fields)))


def _stored(instance: DataflowInstance, **fields: Any) -> DataflowInstance:
    system = instance.system
    return instance.replace(system=system.replace(memory=system.memory.replace(**fields)))


def _networked(instance: DataflowInstance, network: list[Any]) -> DataflowInstance:
    return instance.replace(system=instance.system.replace(network=tuple(network)))


def _tasked(instance: DataflowInstance, **fields: Any) -> DataflowInstance:
    return instance.replace(task=instance.task.replace(**fields))


def pipelined(instance: DataflowInstance) -> bool:
    """Whether a mapping may have a pipeline."""
    return any(degrees.pipeline > 1 for degrees in allowed_degrees(instance))


def _left_out(instance: DataflowInstance) -> Iterator[DataflowTrial]:
    """What is done without: the bubble, launches and steps beside the kernels, overlap that isn't there."""
    task, chip = instance.task, instance.system.chip
    if pipelined(instance):
        yield DataflowTrial("without", "a pipeline that is always full", "bubble", "T4", instance, bubble=False)
    if task.optimizer_step:
        changed = _tasked(instance, optimizer_step=False)
        setting = "task.optimizer_step=false"
        yield DataflowTrial("without", "without the optimiser's step", "optimiser's step", "T8", changed, setting)
    if not task.overlap_gradients and any(one.update for one in instance.workload.kernels):
        changed = _tasked(instance, overlap_gradients=True)
        what, setting = "sums of gradients behind the backward pass", "task.overlap_gradients=true"
        yield DataflowTrial("without", what, "sums of gradients", "T6", changed, setting)
    if not task.overlap:
        what, changed = "compute, DRAM and network side by side", _tasked(instance, overlap=True)
        yield DataflowTrial("without", what, "overlap", "T4", changed, "task.overlap=true")
    shares = chip.efficiency or chip.blocks
    if task.utilisation is not None and (task.utilisation < 1 or shares):
        changed = _chipped(_tasked(instance, utilisation=1.0), efficiency=(), blocks=(), units=0, block_start=0)
        setting = _one("task.utilisation", 1.0, not shares)
        yield DataflowTrial("without", "kernels that reach the whole peak", "utilisation", "T1", changed, setting)


def _alone(instance: DataflowInstance, rates: list[Resource]) -> Iterator[DataflowTrial]:
    """One of compute, DRAM and network as it is, and nothing else takes time; and compute without any limit."""
    groups = {"T1": "compute", "T2": "DRAM", "T3": "network"}
    for label, name in groups.items():
        changed = instance
        for one in rates:
            if one.label != label:
                changed, _ = one.make(changed, FREE)
        if any(one.label == label for one in rates):
            yield DataflowTrial("alone", f"{name} alone", name, label, changed, bubble=False)
            if label == "T1":
                free, _ = _sram(changed, FREE)
                free = _stored(free, capacity_bytes=None)
                yield DataflowTrial("alone", "compute alone, memories without limit", "peak", label, free, bubble=False)


def _choices(instance: DataflowInstance) -> Iterator[DataflowTrial]:
    """What the task says and the solver could choose."""
    task = instance.task
    free: list[tuple[str, str, str, Any]] = [
        ("degrees", "degrees of parallelism chosen", "C0", None),
        ("micro_batch", "the micro-batch chosen", "C0", None),
        ("schemes", "sharding schemes chosen", "C0", {}),
        ("together", "without pinned kernels", "C5", ()),
        ("apart", "without kernels that lie apart", "C5", ()),
        ("pins", "without pins to partitions", "C5", ()),
        ("forbidden", "without forbidden partitions", "C5", ()),
    ]
    kernels, limited = instance.workload.kernels, instance.system.memory.capacity_bytes is not None
    if limited and any(one.phase == "backward" for one in kernels):
        free.append(("recompute", "recomputation chosen", "C6", None))
    if any(one.update for one in kernels):
        free.append(("shard", "what replicas share out chosen", "C6", None))
    if offered_keeps(instance) != (None,):
        free.append(("keep", "how long layouts are kept chosen", "C0", None))
    if task.schedule in INTERLEAVED:
        free.append(("chunks", "the chunks of a stage chosen", "C0", None))
    for field, what, label, value in free:
        if getattr(task, field) != value:
            changed = _tasked(instance, **{field: value})
            yield DataflowTrial("choice", what, field, label, changed, _one(f"task.{field}", value))
    if task.partitions is not None:
        changed, what = _tasked(instance, partitions=None, exactly=False), "any number of partitions"
        yield DataflowTrial(
            "choice", what, "partitions", "C4", changed, _one("task.partitions", None, not task.exactly)
        )
    if task.schedule == "1f1b" and instance.mode == "physical" and pipelined(instance):
        changed = _tasked(instance, schedule="interleaved", chunks=None)
        yield DataflowTrial("choice", "an interleaved pipeline", "schedule", "T4", changed, "task.schedule=interleaved")
    if task.schedule in ("1f1b", "zb-h1") and pipelined(instance):
        changed, setting = _tasked(instance, schedule="dualpipe-v"), "task.schedule=dualpipe-v"
        yield DataflowTrial("choice", "a forward and a backward pass at once", "schedule", "T4", changed, setting)
