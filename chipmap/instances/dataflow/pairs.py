"""The time of a layer where a stage runs a forward and a backward pass at once (``task.schedule`` ``dualpipe-v``).

The formulas are those of ``docs/families/dataflow-schedules.md``, "Two passes at once". T4 is a fraction there: it is
the largest of four weighted sums over kernels (:class:`Arm`), each of which counts compute and DRAM, network, and
forward passes at weights of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from chipmap.instances.dataflow.batch import micro_batches, paired, runs
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.problem import DataflowProblem

#: What :func:`arms` are, in words.
ARMS = ("compute and DRAM of both", "the network of both", "the forward pass", "the backward pass")


class Shares(NamedTuple):
    """Of ``all`` passes that set the pace of a batch, those that run ``alone``, and in ``pairs``."""

    all: int
    alone: int
    pairs: int


def shares(instance: DataflowInstance, degrees: Degrees) -> Shares:
    """2 (m + PP - 1) passes through a chunk, of which 3 · PP run alone and 2m - PP - 2 in pairs."""
    rounds, stages = int(micro_batches(instance, degrees)), degrees.pipeline
    return Shares(2 * (rounds + stages - 1), 3 * stages, 2 * rounds - stages - 2)


def parts_of_time(problem: DataflowProblem) -> int:
    """Of a picosecond, of which T4 has a whole number: 1, or where passes run in pairs :attr:`Shares.all`."""
    at = problem.instance, problem.degrees
    return shares(*at).all if paired(*at) else 1


def least_time(instance: DataflowInstance, degrees: Degrees, whole: int) -> Fraction:
    """T4 at least, of a layer all of whose passes take ``whole`` picoseconds: half of that in pairs."""
    some = shares(instance, degrees)
    return Fraction(whole * (some.pairs + 2 * some.alone), 2 * some.all)


class Arm(NamedTuple):
    """Weights of each kernel's own time (compute, DRAM and launch, each time that it runs) and of its network, in
    parts of :attr:`Shares.all`. T4 is at least the weighted sum."""

    own: tuple[int, ...]
    network: tuple[int, ...]


def arms(problem: DataflowProblem) -> tuple[Arm, ...]:
    """The four: pairs take as long as compute and DRAM, network, forward pass, or backward pass. T4 is the largest."""
    some, again = shares(problem.instance, problem.degrees), runs(problem.instance)
    forward = [kernel.phase == "forward" for kernel in problem.instance.workload.kernels]
    alone = tuple(some.alone * k for k in again)
    own = tuple((some.alone + some.pairs) * k for k in again)
    there = tuple(some.alone * k + some.pairs * ahead for k, ahead in zip(again, forward, strict=True))
    back = tuple(some.alone * k + some.pairs * (k - ahead) for k, ahead in zip(again, forward, strict=True))
    return Arm(own, alone), Arm(alone, own), Arm(there, there), Arm(back, back)


class Pace(NamedTuple):
    """What sets the pace where passes run in pairs: its ``name``, its :class:`Arm`, T4 of the ``layer``; picoseconds of
    a ``pair``, and of both its passes ``apart``, for a layer and micro-batch."""

    name: str
    arm: Arm
    layer: Fraction
    pair: int
    apart: int


def pace(problem: DataflowProblem, own: Sequence[int], network: Sequence[int]) -> Pace:
    """The :class:`Pace` of kernels that take these picoseconds of their own and of the network each time they run."""
    some, several = shares(problem.instance, problem.degrees), arms(problem)
    sums = [sum(w * x for w, x in zip((*arm.own, *arm.network), (*own, *network), strict=True)) for arm in several]
    binds = max(range(len(several)), key=sums.__getitem__)
    apart = sum(k * (a + b) for k, a, b in zip(runs(problem.instance), own, network, strict=True))
    pair = (sums[binds] - some.alone * apart) // some.pairs
    return Pace(ARMS[binds], several[binds], Fraction(sums[binds], some.all), pair, apart)


def mixed(several: Sequence[Arm], weights: Sequence[int]) -> Arm:
    """The sum of arms at these whole weights: T4 times their sum is at least its weighted sum."""
    columns = ([getattr(arm, field) for arm in several] for field in Arm._fields)
    return Arm(*(tuple(sum(w * x for w, x in zip(weights, each, strict=True)) for each in zip(*column, strict=True))
                 for column in columns))  # fmt: skip
