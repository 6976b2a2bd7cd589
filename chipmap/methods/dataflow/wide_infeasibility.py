"""Why a graph of any width has no mapping at some degrees: a kernel, a group of pins or a phase needs too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover.pricing import PricingProgram
from chipmap.heuristics.dataflow.program.restricted_program import RestrictedProgram
from chipmap.heuristics.dataflow.symmetric.classes import Classes, classes
from chipmap.instances.dataflow.batch_time import outside
from chipmap.instances.dataflow.floors import least_sram
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.shortages import MORE_CHIPS, PINS, at_least, lacking, largest, smaller_weights
from chipmap.result import Infeasibility
from chipmap.solvers.repeated import Repeated


class Shortage(NamedTuple):
    """The ``demand`` of every mapping, which is above the ``limit``; ``where`` names what needs it."""

    label: str
    demand: int
    limit: int
    where: str


def shortage(of: Classes, seconds: float) -> Shortage | None:
    """A proof that ``of``'s degrees have no mapping, or None where these bounds show none."""
    return _kernel(of.problem) or _dram(of.problem) or _partitions(of) or _group(of, seconds)


def _kernel(problem: DataflowProblem) -> Shortage | None:
    sizes = least_sram(problem)
    worst = max(range(problem.n), key=sizes.__getitem__)
    name = problem.instance.workload.kernels[worst].name
    return Shortage("C2", sizes[worst], problem.sram, name) if sizes[worst] > problem.sram else None


def _dram(problem: DataflowProblem) -> Shortage | None:
    """C6: the bytes that rest in a chip's DRAM all the time are more than it has."""
    limit, rests = problem.instance.system.memory.capacity_bytes, outside(problem, "kept")
    return Shortage("C6", rests, limit, largest(problem, limit)) if limit is not None and rests > limit else None


def _partitions(of: Classes) -> Shortage | None:
    """C4: the weights of a phase fill more partitions than are asked for."""
    most = of.problem.instance.asked[0]
    if most is None:
        return None
    for phase in sorted(set(of.backward)):
        held = sum(
            of.size(c) * min(option.weights for option in of.options(c))
            for c in range(len(of.kernels))
            if of.backward[c] == phase
        )
        fewest = -(-held // of.problem.sram)
        if fewest > most:
            return Shortage("C4", fewest, most, "backward" if phase else "forward")
    return None


def _group(of: Classes, seconds: float) -> Shortage | None:
    """C5: no partition holds all kernels of some group."""
    instance, where = of.problem.instance, of.of()
    index = {kernel.name: v for v, kernel in enumerate(instance.workload.kernels)}
    for group in instance.task.together:
        c = where[index[group[0]]]
        pricing = PricingProgram(of, of.backward[c], 1.0)
        row = {pricing.names["x", c, o]: 1.0 for o in range(len(of.options(c)))}
        solver = Repeated(pricing.upper, pricing.integer, [*pricing.rows, (row, 1.0, 1.0)])
        if solver.minimise(np.zeros(len(pricing.upper)), seconds, 1.0).bound is None:
            held = sum(min(o.weights for o in of.problem.options[index[name]]) for name in group)
            return Shortage("C5", max(held, of.problem.sram + 1), of.problem.sram, ", ".join(group))
    return None


def wide_reasons(problems: Sequence[DataflowProblem], deadline: Deadline) -> list[Infeasibility]:
    """The reason at the degrees that come nearest; none where some degrees may have a mapping."""
    found = []
    for problem in problems:
        deadline.check()
        of = classes(problem)
        short = shortage(of, 10.0)
        if short is None:
            return []
        found.append((short.demand / max(1, short.limit), short, of))
    if not found:
        return []
    _, short, of = min(found, key=lambda one: one[0])
    message, remedies = _message(short, of)
    return [lacking(short.label, short.demand, short.limit, message, *remedies)]


def kernels_too_large(problems: Sequence[DataflowProblem]) -> list[Infeasibility]:
    """C2, where for each of ``problems`` some kernel alone takes more than a chip's SRAM, at the degrees that come
    nearest; else none. A sum: it needs no search."""
    found = [(short, problem) for problem in problems if (short := _kernel(problem)) is not None]
    if not found or len(found) < len(problems):
        return []
    short, problem = min(found, key=lambda one: one[0].demand)
    message, remedies = _large_kernel(short, problem)
    return [lacking(short.label, short.demand, short.limit, message, *remedies, labels=("C2",))]


def _large_kernel(short: Shortage, problem: DataflowProblem) -> tuple[str, tuple[str, ...]]:
    tensor, names = problem.degrees.tensor, [kernel.name for kernel in problem.instance.workload.kernels]
    options = problem.options[names.index(short.where)]
    return (
        f"kernel {short.where!r} alone takes {short.demand:,} bytes of a chip's SRAM with its weights and the "
        f"buffers of what it reads and writes (tensor parallelism {tensor}); there are {short.limit:,}",
        (
            at_least("system.chip.sram_bytes", short.demand, "byte"),
            smaller_weights(options, short.limit, tensor),
        ),
    )


def _message(short: Shortage, of: Classes) -> tuple[str, tuple[str, ...]]:
    tensor = of.problem.degrees.tensor
    if short.label == "C2":
        return _large_kernel(short, of.problem)
    if short.label == "C5":
        return (
            f"{short.where} are pinned together but don't fit one partition of {short.limit:,} bytes of SRAM "
            f"(tensor parallelism {tensor}; their weights and buffers take more than that)",
            (PINS, "more SRAM or more tensor parallelism"),
        )
    if short.label == "C6":
        return (
            f"{short.demand:,} bytes rest in a chip's DRAM at least (tensor parallelism {tensor}); there are "
            f"{short.limit:,}{short.where}",
            (at_least("system.memory.capacity_bytes", short.demand, "byte"), MORE_CHIPS),
        )
    found = _enough(of)
    would = f"; {found} would fit the SRAM" if found else ""
    return (
        f"the weights of the {short.where} kernels fill {short.demand} partitions (tensor parallelism {tensor}), at "
        f"most {short.limit} are asked for{would}",
        (at_least("task.partitions", found or short.demand, "partition"), "more SRAM"),
    )


def _enough(of: Classes) -> int | None:
    """A number of partitions per phase for which there is a mapping (None: none found)."""
    program = RestrictedProgram(of, None, False, True)
    found = program.solve(program.cheapest(), 1)
    if found is None:
        return None
    kernels = of.problem.instance.workload.kernels
    each = [
        {p for v, p in enumerate(found.partitions) if kernels[v].phase == phase} for phase in ("forward", "backward")
    ]
    return max(map(len, each))
