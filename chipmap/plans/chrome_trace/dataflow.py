"""A dataflow mapping in time: the batch in parts, and one layer on a chip, as events of a Chrome trace.

**Batch.** The parts of its time follow each other and add up to the objective: partitions (those of the same kernels
together), the bubble without what late updates fill of it, transfers, gradients, the optimiser's step.

**Layer.** One micro-batch on a chip, partition after partition, with tracks for what computes, what DRAM moves and what
the network moves meanwhile, and DRAM as a level. All stages are alike, and the track ends at T4. Where stages share
out kernels each has tracks of its own, and the longest one ends at T7.
"""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.explaining.dataflow.spent import BatchTimeSpent, spent
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.trace_events import Event
from chipmap.plans.chrome_trace.queues import Piece, Queues
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.dram import in_dram
from chipmap.validation.dataflow.ends import most
from chipmap.validation.dataflow.mapping import Mapping, mapping_of
from chipmap.validation.dataflow.times import Times, times_of

#: The processes of the trace; that of stage s is LAYER + s.
BATCH, LAYER = 1, 2
PS_PER_NS = 1000
#: The tracks of a chip.
CHIP, RESOURCES = "chip", ("compute", "DRAM", "network")
#: Characters of a partition's name; the facts have all.
NAME = 80


def events(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Event]:
    """All events of a valid mapping."""
    certificate = check(instance, solution)
    assert certificate.objective is not None
    whole = Queues(BATCH, f"{instance.name}: batch", ["batch", "parts"], PS_PER_NS)
    yield from whole.named()
    yield from whole.put(0, [Piece("batch", "batch", certificate.objective, {"terms": dict(certificate.terms)})])
    yield from whole.put(1, _parts(spent(instance, solution, certificate.terms)))
    mapping = mapping_of(instance, solution)
    times = times_of(mapping)
    stages = sorted(mapping.company)
    for s in stages:
        yield from _chip(mapping, times, s, f"stage {s}" if solution.stages else "one layer on a chip")


def _parts(found: BatchTimeSpent) -> Iterator[Piece]:
    """What the batch's time is spent on."""
    for piece in found.pieces:
        facts = {"kernels": ", ".join(piece.names), "partitions": piece.partitions, "binds": piece.binds}
        yield Piece(_short(piece.names), "partition", piece.total, facts)
    filled = {"filled_ps": found.filled} if found.filled else {}
    rest = {"bubble": found.bubble - found.filled, "transfers": found.transfers, "gradients": found.gradients}
    for name, ticks in {**rest, "step": found.step}.items():
        if ticks:
            yield Piece(name, name, ticks, filled if name == "bubble" else {})


def _chip(mapping: Mapping, times: Times, stage: int, title: str) -> Iterator[Event]:
    """The partitions of a stage for one micro-batch, one after the other."""
    kernels, overlap = mapping.instance.workload.kernels, mapping.instance.task.overlap
    queues = Queues(LAYER + stage, title, [CHIP, *RESOURCES], PS_PER_NS)
    yield from queues.named()
    backward = {copy.partition for copy in mapping.copies if kernels[copy.kernel].phase == "backward"}
    for p in sorted(mapping.company[stage], key=lambda p: (p in backward, p)):
        names = tuple(kernels[copy.kernel].name for copy in mapping.copies if copy.partition == p)
        resting, waiting = in_dram(mapping, most(mapping))[p]
        yield queues.level(f"DRAM, {title}", queues.end[0], resting + waiting)
        each = (times.compute[p], times.memory[p], times.network[p])
        run = times.together[p] // times.runs[p]
        launch = run - (max(each) if overlap else sum(each))
        for number in range(times.runs[p]):
            start = queues.end[0]
            facts = {"partition": p, "kernels": ", ".join(names), "run": number + 1, "launch_ps": launch}
            yield from queues.put(0, [Piece(_short(names), "partition", run, facts)])
            at = start + launch
            for track, (name, ticks) in enumerate(zip(RESOURCES, each, strict=True), start=1):
                if ticks:
                    yield queues.at(track, at, Piece(_short(names), name, ticks, {"partition": p}))
                at += 0 if overlap else ticks


def _short(names: tuple[str, ...]) -> str:
    text = ", ".join(names)
    return text if len(text) <= NAME else f"{text[: NAME - 4]} ..."
