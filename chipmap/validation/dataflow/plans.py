"""C0 for how a mapping runs the batch: micro-batch, chunks, recomputation, what replicas share out."""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.records import counted
from chipmap.validation.certify import Finding
from chipmap.validation.dataflow.facts import in_pairs


def wrong_micro_batch(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """A mapping's micro-batch is that of the task, if one is given; so many samples of each replica divide the
    batch (C0)."""
    task, replicas = instance.task, solution.degrees.data
    stated = task.micro_batch if solution.micro_batch is None else solution.micro_batch
    if stated is None:
        yield "micro_batch", 1, "samples", "neither the task nor the mapping says how many samples a micro-batch has"
    elif task.micro_batch not in (None, stated):
        message = f"micro-batches have {stated} samples, the task asks for {task.micro_batch}"
        yield "micro_batch", abs(stated - (task.micro_batch or 0)), "samples", message
    elif stated < 1 or replicas < 1 or task.batch % (replicas * stated):
        parts = f"{counted(replicas, 'replica')} don't divide the batch"
        message = f"{parts} of {task.batch:,} into micro-batches of {stated:,}"
        yield "data", 1, "replicas", message


def wrong_pairs(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """Where passes run in pairs, a stage has two chunks of equally many layers, and a replica two micro-batches or
    more for each stage (C0)."""
    task, degrees, layers = instance.task, solution.degrees, instance.workload.layers
    if not in_pairs(instance, degrees):
        return
    if layers % (2 * degrees.pipeline):
        message = f"{counted(degrees.pipeline, 'stage')} of two chunks don't divide {counted(layers, 'layer')}"
        yield "pipeline", 1, "stages", message
    samples = degrees.data * (solution.micro_batch or task.micro_batch or 1)
    rounds, least = task.batch // max(1, samples), 2 * degrees.pipeline
    if rounds < least:
        few = counted(rounds, "micro-batch", "micro-batches")
        yield "data", least - rounds, "micro-batches", f"a replica has {few}, its stages' chunks are {least}"


def wrong_chunks(instance: DataflowInstance, solution: DataflowSolution) -> Iterator[Finding]:
    """A stage's chunks are those of the task, if it gives them, and share out its layers; the micro-batches of a
    replica are then shared out over the stages (C0)."""
    task, degrees = instance.task, solution.degrees
    if not task.schedule.startswith("interleaved"):
        if solution.chunks not in (None, 1):
            message = f"a stage has {solution.chunks} chunks, but nothing is interleaved"
            yield "chunks", solution.chunks - 1, "chunks", message
        return
    chunks = task.chunks if solution.chunks is None else solution.chunks
    if chunks is None:
        yield "chunks", 1, "chunks", "neither the task nor the mapping says how many chunks a stage has"
    elif task.chunks not in (None, chunks):
        message = f"a stage has {chunks} chunks, the task asks for {task.chunks}"
        yield "chunks", abs(chunks - (task.chunks or 0)), "chunks", message
    elif chunks < 1 or (task.stage_layers == () and instance.workload.layers % max(1, degrees.pipeline * chunks)):
        parts = f"{counted(degrees.pipeline, 'stage')} of {counted(chunks, 'chunk')}"
        yield "chunks", 1, "chunks", f"{parts} don't divide {counted(instance.workload.layers, 'layer')}"
    elif chunks > 1 and (chunks - 1) * degrees.pipeline >= instance.workload.layers:
        yield "chunks", 1, "chunks", f"{counted(chunks, 'chunk')} of a stage are more than a mean stage has layers"
    elif chunks > 1:
        samples = degrees.data * (solution.micro_batch or task.micro_batch or 1)
        rounds = task.batch // max(1, samples)
        if rounds % max(1, degrees.pipeline):
            whole = counted(rounds, "micro-batch", "micro-batches")
            yield "chunks", 1, "stages", f"{counted(degrees.pipeline, 'stage')} don't divide {whole}"


def wrong_recomputation(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """What of ``recompute`` isn't what the task asks for, or allows (C0); empty where nothing is."""
    task, stated = instance.task, solution.recompute
    if task.recompute is None:
        if stated is None:
            return "neither the task nor the mapping says what is recomputed"
        return "the task names no kernels to be recomputed" if stated == "selective" and not task.selective else ""
    asked = task.recompute if isinstance(task.recompute, str) else "full" if task.recompute else "none"
    return "" if stated in (None, asked) else f"recomputation is {stated}, the task asks for {asked}"


def wrong_shard(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """What of ``shard`` isn't what the task asks for, or leaves open (C0); empty where nothing is."""
    asked, stated = instance.task.shard, solution.shard
    if asked is None:
        return "" if stated else "neither the task nor the mapping says what replicas share out"
    named = asked if isinstance(asked, str) else "weights" if asked else "none"
    return "" if stated in (None, named) else f"replicas share out {stated}, the task asks for {named}"
