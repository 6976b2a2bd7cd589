"""For which degrees a model of family ``dataflow`` is stated, and what that makes it worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from chipmap.family import Standing
from chipmap.instances.dataflow.instance import (
    DataflowInstance,
    DataflowSolution,
    Degrees,
    allowed_degrees,
    allowed_micro_batches,
    held_degrees,
    useful_micro_batches,
)
from chipmap.instances.dataflow.problem import compute_ticks, dataflow_problem
from chipmap.records import InputError


@dataclass(frozen=True)
class DataflowChoices:
    """How a model is stated.

    ``degrees`` and ``micro_batch``: those that the model is for (None: the task's, or of all that there are those with
    the least compute). ``order``: ``prefix`` numbers the partitions that are in use without a gap, ``free`` lets any be
    empty. ``upper``: cutoff, only mappings whose batch takes <= upper ticks. ``given``: only mappings with the degrees
    and schemes of this one, and where stages share out kernels with its stages: what the intra-chip pass leaves to
    choose.
    """

    degrees: Degrees | None = None
    micro_batch: int | None = None
    order: Literal["prefix", "free"] = "prefix"
    upper: int | None = None
    given: DataflowSolution | None = None


class Settled(NamedTuple):
    """The degrees of a model, its micro-batch and its standing; without ``fit`` they don't divide layers and batch: it
    is infeasible."""

    degrees: Degrees
    micro_batch: int
    standing: Standing
    fit: bool


def settle(instance: DataflowInstance, choices: DataflowChoices) -> Settled:
    """The degrees and the micro-batch of a model, and its standing: a restriction where the task allows others as well
    (but for micro-batches that are no better).

    It is one, too, where a tensor goes from a backward kernel to a forward one: the models run forward kernels first.
    Nor are ``given`` choices all. Without allowed degrees the model is stated for some that the network holds. Raises
    :class:`InputError` for wanted ones that aren't allowed.
    """
    allowed, wanted, each = allowed_degrees(instance), choices.degrees, choices.micro_batch
    if choices.given is not None:
        if wanted not in (None, choices.given.degrees):
            raise InputError("the given mapping has other degrees", "given", "Leave out degrees, or use its own.")
        wanted, each = choices.given.degrees, choices.given.micro_batch
    if wanted is not None and wanted not in allowed:
        raise InputError("these degrees are not among those that the task allows", "degrees", "Use allowed_degrees.")
    if not allowed:
        return Settled(next(held_degrees(instance)), instance.task.micro_batch or 1, Standing.EXACT, fit=False)
    pairs = [(d, m) for d in ([wanted] if wanted else allowed) for m in useful_micro_batches(instance, d)]
    if each is not None:
        pairs = [(d, each) for d in dict.fromkeys(d for d, _ in pairs) if each in allowed_micro_batches(instance, d)]
        if not pairs:
            what = f"{each} is not among the micro-batches that the task allows"
            raise InputError(what, "micro_batch", "Use allowed_micro_batches.")
    degrees, micro_batch = min(pairs, key=lambda pair: compute_ticks(dataflow_problem(instance, *pair)))
    phase = {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    wires = [*instance.workload.edges, *(instance.workload.carries if instance.task.across_layers else ())]
    returns = any(phase[u] == "backward" and phase[v] == "forward" for u, v in wires)
    alone = len(allowed) == 1 and useful_micro_batches(instance, degrees) == (micro_batch,)
    exact = alone and not returns and choices.given is None
    return Settled(degrees, micro_batch, Standing.EXACT if exact else Standing.RESTRICTION, fit=True)
