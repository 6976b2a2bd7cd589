"""Serving a language model: latencies and throughput from optimal mappings.

Source: DFModel, section VIII, figure 20; ``docs/families/dataflow-serving.md``. Times are those of checked
mappings by ``dataflow/auto``.
"""

from __future__ import annotations

from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve


class Pass(NamedTuple):
    """One pass of a micro-batch through a model: microseconds (TTFT of a prefill, TPOT of a decode step), the tokens
    per second of the whole batch, and whether the mapping is proved optimal."""

    latency_us: float
    tokens_per_s: float
    optimal: bool


def serve(instance: DataflowInstance, time_limit: float = 60.0) -> Pass:
    """The pass of a prefill or decode ``instance`` under its optimal mapping.

    Raises :class:`InputError` for an instance of another purpose, and where no mapping was found.
    """
    if instance.task.purpose == "training":
        raise InputError("is training", "task.purpose", "Give prefill or decode.")
    result = solve(instance, "dataflow/auto", SolveOptions.make(time_limit=time_limit), isolate=False)
    if result.certificate is None or not result.certificate.feasible:
        raise InputError(f"{instance.name} has no mapping ({result.status})", "serve", "`chipmap solve` says why.")
    figures = result.certificate.figures
    latency = figures["ttft_us" if instance.task.purpose == "prefill" else "tpot_us"]
    return Pass(latency, figures["tokens_per_s"], result.status == "optimal")


def staged(instance: DataflowInstance, tensor: int, pipeline: int, batch: int) -> DataflowInstance:
    """``instance`` on tensor x pipeline chips with the links of its first network dimension, serving ``batch`` samples,
    one at a time.

    With as many of them as stages all chips are busy; with one the batch's time is its latency.
    """
    first = instance.system.network[0]
    network = (first.replace(size=tensor), first.replace(size=pipeline))
    degrees = Degrees(tensor=tensor, pipeline=pipeline, dimensions=("tensor", "pipeline"))
    made = instance.replace(
        name=f"{instance.name}-tp{tensor}-pp{pipeline}",
        system=instance.system.replace(network=network),
        task=instance.task.replace(degrees=degrees, batch=batch, micro_batch=1),
    )
    made.check()
    return made
