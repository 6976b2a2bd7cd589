"""For which degrees a model of family ``dataflow`` is stated, and what that makes it worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from chipmap.family import Scope
from chipmap.instances.dataflow.batch_time import compute_ticks
from chipmap.instances.dataflow.instance import (
    INTERLEAVED,
    BatchPlan,
    DataflowInstance,
    DataflowSolution,
    Degrees,
    Keep,
    Recompute,
    Shard,
)
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans, held_degrees, useful_plans
from chipmap.instances.dataflow.uneven import even_layers, with_layers
from chipmap.records import InputError


@dataclass(frozen=True)
class DataflowChoices:
    """How a model is stated.

    ``degrees``, ``micro_batch``, ``chunks``, ``recompute``, ``shard``, ``keep``, ``stage_layers``: those that the model
    is for (None: the task's, or of all that there are those with the least compute; equally many layers, or nearly).
    ``order``: ``prefix`` numbers the partitions in use without a gap, ``free`` lets any be empty. ``upper``: cutoff,
    only mappings whose batch takes <= upper ticks.
    ``given``: only mappings with the degrees and schemes of this one, and where stages share out kernels with its
    stages: what the intra-chip pass leaves to choose.
    """

    degrees: Degrees | None = None
    micro_batch: int | None = None
    chunks: int | None = None
    recompute: Recompute | None = None
    shard: Shard | None = None
    keep: Keep | None = None
    stage_layers: tuple[int, ...] | None = None
    order: Literal["prefix", "free"] = "prefix"
    upper: int | None = None
    given: DataflowSolution | None = None

    @property
    def plan(self) -> BatchPlan:
        """How the batch is to be run."""
        own = self.micro_batch, self.chunks, self.recompute, self.shard, self.keep
        return BatchPlan(*own, self.stage_layers)


class Settled(NamedTuple):
    """The degrees of a model, the plan of its batch and its scope; without ``fit`` they don't divide layers and
    batch: it is infeasible."""

    degrees: Degrees
    plan: BatchPlan
    scope: Scope
    fit: bool


def settle(instance: DataflowInstance, choices: DataflowChoices) -> Settled:
    """The degrees and the plan of a model, and its scope: a subset where the task allows others as well (but for plans
    that are no better).

    It is one, too, where a tensor goes from a backward kernel to a forward one: the models run forward kernels first.
    Nor are ``given`` choices all. Without allowed degrees the model is stated for some that the network holds. Raises
    :class:`InputError` for wanted ones that aren't allowed.
    """
    allowed, wanted, asked = allowed_degrees(instance), choices.degrees, choices.plan
    if choices.given is not None:
        if wanted not in (None, choices.given.degrees):
            raise InputError("the given mapping has other degrees", "given", "Leave out degrees, or use its own.")
        wanted, asked = choices.given.degrees, choices.given.plan
    if wanted is not None and wanted not in allowed:
        raise InputError("these degrees are not among those that the task allows", "degrees", "Use allowed_degrees.")
    if not allowed:
        again: Recompute | None = "none" if instance.task.recompute is None else None
        what: Shard | None = "none" if instance.task.shard is None else None
        some = BatchPlan(instance.task.micro_batch or 1, _one_chunk(instance), again, what)
        return Settled(next(held_degrees(instance)), some, Scope.WHOLE, fit=False)
    pairs = [(d, plan) for d in ([wanted] if wanted else allowed) for plan in _plans(instance, d, asked)]
    if not pairs:
        names = {"micro_batch": "micro-batches", "chunks": "chunks", "recompute": "recomputations"}
        names |= {"shard": "parts that replicas share out", "keep": "times for which layouts are kept"}
        names |= {"stage_layers": "numbers of layers"}
        field, each = next((name, one) for name, one in zip(names, asked, strict=True) if one is not None)
        raise InputError(f"{each} is not among the {names[field]} that the task allows", field, "Use allowed_plans.")
    degrees, plan = min(pairs, key=lambda pair: compute_ticks(dataflow_problem(instance, pair[0], *pair[1])))
    if instance.task.stage_layers is None and plan.stage_layers is None:
        plan = plan._replace(stage_layers=even_layers(instance, degrees, plan))
    phase = {kernel.name: kernel.phase for kernel in instance.workload.kernels}
    wires = [*instance.workload.edges, *(instance.workload.carries if instance.task.across_layers else ())]
    returns = any(phase[u] == "backward" and phase[v] == "forward" for u, v in wires)
    alone = len(allowed) == 1 and useful_plans(instance, degrees) == [plan]
    whole = alone and not returns and choices.given is None
    return Settled(degrees, plan, Scope.WHOLE if whole else Scope.SUBSET, fit=True)


def _one_chunk(instance: DataflowInstance) -> int | None:
    return (instance.task.chunks or 1) if instance.task.schedule in INTERLEAVED else None


def _plans(instance: DataflowInstance, degrees: Degrees, asked: BatchPlan) -> list[BatchPlan]:
    """The plans with what is ``asked`` for (None: anything); of those that are useful, where all is open."""
    if asked == BatchPlan():
        return useful_plans(instance, degrees)
    found = allowed_plans(instance, degrees)
    if asked.stage_layers is not None:
        found = [with_layers(instance, degrees, plan, asked.stage_layers) for plan in found]
    return [plan for plan in found if all(a in (None, b) for a, b in zip(asked, plan, strict=True))]
