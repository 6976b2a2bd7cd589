"""Parameters that rest as forward kernels have them, and what it takes to bring them where others use them.

From ``docs/families/dataflow-exchanges.md``, "Weights that rest", alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.validation.dataflow import facts, joint, training
from chipmap.validation.dataflow.layouts import End

#: What a scheme leaves of the (outer · M) × K matrix: of a forward kernel's parameters, of those that a backward one
#: uses, of the gradient that an update makes.
RESTS = {"OUTER": "rows", "M": "rows", "K": "columns", "K_RS": "columns", "K_N": "columns", "E": "experts"}
USED = {"OUTER": "columns", "M": "columns", "K": "rows", "K_RS": "rows", "K_N": "rows", "E": "experts"}
MADE = {"OUTER": "rows", "M": "rows", "K_RS": "rows", "N": "columns", "K_N": "columns", "E": "experts"}


class Part(NamedTuple):
    """Rows, columns, experts, or the whole, and the share of all that it is."""

    kind: str
    share: Fraction

    def covers(self, other: Part, chips: int) -> bool:
        """Whether the other lies within this one."""
        if self.kind == "whole" or self.share == 1:
            return True
        return self.kind == other.kind and facts.covers(self.share, other.share, chips)


def resting(owner: End, instance: DataflowInstance, degrees: Degrees) -> Part:
    """The part of a forward kernel's parameters that a chip has."""
    return Part(RESTS.get(owner[1], "whole"), facts.weights_share(*owner, instance, degrees))


def used(user: End, instance: DataflowInstance, degrees: Degrees) -> Part:
    """The part of a forward kernel's parameters that a backward one computes with."""
    return Part(USED.get(user[1], "whole"), facts.weights_share(*user, instance, degrees))


def made(update: End, instance: DataflowInstance, degrees: Degrees) -> Part:
    """The part of a gradient that an update makes."""
    return Part(MADE.get(update[1], "whole"), facts.output_share(*update, instance, degrees))


def brought(size: Fraction, held: Part, wanted: Part, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """Nanoseconds until a chip that has one part of ``size`` bytes has another."""
    if held.covers(wanted, degrees.tensor):
        return Fraction(0)
    time = Fraction(0)
    if "experts" in (held.kind, wanted.kind):
        time += sum(facts.reduce_scatter(size / degrees.tensor, d) for d in facts.uses(instance, degrees, "expert"))
    links = joint.group(instance, degrees)
    if wanted.kind == "whole":
        return time + joint.reduce_scatter(size * held.share * math.ceil(1 / held.share), links)
    return time + joint.to_each(size * max(held.share, wanted.share), links)


def each_run(owner: End, user: End, instance: DataflowInstance, degrees: Degrees) -> int:
    """T3: picoseconds, each time that a backward kernel runs, to gather its forward kernel's parameters from replicas
    that share them out, unless that one was just recomputed; and to bring them where it uses them."""
    size = facts.whole_weights(owner[0], instance)
    time = brought(size, resting(owner, instance, degrees), used(user, instance, degrees), instance, degrees)
    there = owner[0].name in facts.recomputed(instance)
    return (0 if there else training.exchanged(*owner, instance, degrees)) + facts.up(time)


def beside(owner: End, user: End, instance: DataflowInstance, degrees: Degrees) -> int:
    """C6: bytes that a backward kernel uses of parameters which don't rest on its chip."""
    needed = used(user, instance, degrees)
    if resting(owner, instance, degrees).covers(needed, degrees.tensor):
        return 0
    return math.ceil(facts.whole_weights(owner[0], instance) * needed.share)


def after(owner: End, update: End, instance: DataflowInstance, degrees: Degrees) -> int:
    """T6: picoseconds per batch to bring what an update has made where parameters rest, for all layers of a stage; a
    replica's part of it, where each has updated one. In a stage by itself T3, each time, for a layer."""
    rest = resting(owner, instance, degrees)
    layers = 1 if instance.task.in_flight else facts.stage_layers(instance, degrees)
    size = facts.whole_weights(owner[0], instance) * layers
    if rest.kind != "whole" and instance.task.shard in ("optimizer", "gradients"):
        size /= degrees.data
    return facts.up(brought(size, made(update, instance, degrees), rest, instance, degrees))
