"""What the time of a mapping is spent on: parts that add up to the objective, to the picosecond."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from chipmap.instances.dataflow.batch import layers_per_stage, micro_batches, paired
from chipmap.instances.dataflow.batch_time import steps
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.loads import Times, often, times
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.pairs import Pace, pace, parts_of_time
from chipmap.instances.dataflow.problem import DataflowProblem

#: What a partition may wait for.
RESOURCES = ("compute", "memory", "network")


class Piece(NamedTuple):
    """Partitions of the same kernels: their ``names`` and schemes, how many ``partitions`` they are, what one of them
    takes each time that it runs, and the picoseconds of the batch by what binds: compute, memory, network, launch."""

    names: tuple[str, ...]
    schemes: tuple[str, ...]
    partitions: int
    times: Times
    by: dict[str, int]

    @property
    def total(self) -> int:
        """Picoseconds of the batch, without bubble."""
        return sum(self.by.values())

    @property
    def binds(self) -> str:
        """What takes most of it."""
        return max(self.by, key=lambda name: self.by[name])


class BatchTimeSpent(NamedTuple):
    """The batch's picoseconds: those of ``pieces``, the longest first; the ``bubble``; what late updates fill of it;
    T5, T6 and T8. ``rounds``: how often a chip runs a layer, for all micro-batches. ``ends``: what kernels of the
    network's ends take in the chunk that takes longest."""

    pieces: tuple[Piece, ...]
    bubble: int
    filled: int
    transfers: int
    gradients: int
    step: int
    rounds: int
    ends: int = 0

    @property
    def parts(self) -> dict[str, int]:
        """All parts by name, without those that are 0; they add up to the objective."""
        found = {name: sum(piece.by[name] for piece in self.pieces) for name in (*RESOURCES, "launch")}
        found |= {"ends": self.ends, "bubble": self.bubble, "late updates": -self.filled, "transfers": self.transfers}
        found |= {"gradients": self.gradients, "step": self.step}
        return {name: ticks for name, ticks in found.items() if ticks}


def spent(instance: DataflowInstance, solution: DataflowSolution, terms: Mapping[str, int]) -> BatchTimeSpent:
    """The parts of a valid mapping's time; ``terms`` are the checker's.

    A partition's time goes to the longest of compute, memory and network (each takes its own without overlap), and its
    launch. Where two passes run at once, of pairs only what sets their pace counts. Where stages share out kernels, the
    batch takes as many steps of the slowest stage as there are micro-batches, whose partitions are told, and the bubble
    is PP - 1 steps.
    """
    problem = dataflow_problem(instance, solution.degrees, *solution.plan)
    rounds = micro_batches(problem.instance, problem.degrees)
    staged = instance.task.stages == "kernels"
    layers = 1 if staged else layers_per_stage(problem.instance, problem.degrees)
    ends = 0
    if problem.longest is not None:
        layers, ends = max(problem.longest.pairs, key=lambda pair: pair[0] * terms["T4"] + pair[1])
        layers, ends = layers * problem.instance.task.parts, ends * int(rounds) * problem.instance.task.parts
    factor = int(rounds) * layers
    pieces = _pieces(problem, solution, factor)
    busy, transfers = sum(piece.total for piece in pieces), terms["T5"]
    if staged:
        transfers = transfers // steps(problem) * factor
    paced = paced_by(problem, solution)
    exactly = Fraction(busy) if paced is None else factor * paced.layer
    late = Fraction(problem.degrees.pipeline - 1) / _full(problem, rounds)
    return BatchTimeSpent(
        pieces=pieces,
        bubble=ceil(exactly + (exactly + ends + transfers * staged) * late) - busy,
        filled=problem.filled,
        transfers=transfers,
        gradients=terms["T6"],
        step=terms["T8"],
        rounds=factor,
        ends=ends,
    )


def paced_by(problem: DataflowProblem, solution: DataflowSolution) -> Pace | None:
    """What sets the pace of a mapping whose passes run in pairs."""
    if not paired(problem.instance, problem.degrees):
        return None
    found = times(problem, solution)
    each = [found[p] for p in solution.partitions]
    return pace(problem, [problem.launch + one.compute + one.memory for one in each], [one.network for one in each])


def _full(problem: DataflowProblem, rounds: Fraction) -> int:
    """The batch's time over that of PP - 1 of its stages that wait, in a full pipeline."""
    instance, spread = problem.instance, problem.instance.task.parts
    if instance.mode == "dfmodel" and instance.task.stages == "layers":
        spread = max(instance.workload.layers // problem.degrees.pipeline - 1, 1)
    return int(rounds) * spread


def _pieces(problem: DataflowProblem, solution: DataflowSolution, factor: int) -> tuple[Piece, ...]:
    """Partitions with the same kernels together; where stages share out kernels those of the slowest stage alone."""
    kernels = problem.instance.workload.kernels
    inside: dict[int, list[int]] = {}
    for i, p in enumerate(solution.partitions):
        inside.setdefault(p, []).append(i)
    found, runs = times(problem, solution), often(problem, solution)
    by = {p: _by(problem, one, runs[p]) for p, one in found.items()}
    paced = paced_by(problem, solution)
    if paced is not None:
        weights = dict(zip(solution.partitions, zip(*paced.arm, strict=True), strict=True))
        by = {p: _in_pairs(problem, one, *weights[p]) for p, one in found.items()}
    if solution.stages:
        stages = {solution.stages[p]: Fraction(0) for p in found}
        for p in found:
            stages[solution.stages[p]] += sum(by[p].values())
        slowest = max(stages, key=lambda s: stages[s])
        found = {p: one for p, one in found.items() if solution.stages[p] == slowest}
    alike: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    for p in found:
        names = tuple(kernels[i % problem.n].name for i in inside[p])
        alike.setdefault((names, tuple(solution.schemes[i] for i in inside[p])), []).append(p)
    pieces = [
        Piece(
            names=names,
            schemes=schemes,
            partitions=len(ps),
            times=found[ps[0]],
            by={name: floor(factor * sum(by[p][name] for p in ps)) for name in by[ps[0]]},
        )
        for (names, schemes), ps in alike.items()
    ]
    return tuple(sorted(pieces, key=lambda piece: (-piece.total, piece.names)))


def _in_pairs(problem: DataflowProblem, one: Times, own: int, network: int) -> dict[str, Fraction]:
    """Picoseconds of a layer and micro-batch that count, of a partition with these weights of what sets the pace."""
    whole = parts_of_time(problem)
    each = {"compute": own * one.compute, "memory": own * one.memory, "network": network * one.network}
    return {name: Fraction(ticks, whole) for name, ticks in {**each, "launch": own * problem.launch}.items()}


def _by(problem: DataflowProblem, one: Times, runs: int) -> dict[str, Fraction]:
    """Picoseconds of a partition's runs for a micro-batch, by what it waits for."""
    each = dict(zip(RESOURCES, (one.compute, one.memory, one.network), strict=True))
    if problem.instance.task.overlap:
        longest = max(RESOURCES, key=lambda name: each[name])
        each = {name: ticks if name == longest else 0 for name, ticks in each.items()}
    return {name: Fraction(runs * ticks) for name, ticks in {**each, "launch": problem.launch}.items()}
