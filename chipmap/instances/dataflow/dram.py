"""What a mapping holds in DRAM while its partitions run, in bytes ("DRAM" in ``docs/families/dataflow-stages.md``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from chipmap.instances.dataflow.batch import in_flight, layers_per_stage
from chipmap.instances.dataflow.exchanged import Kept, exchanged
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem, wires


def dram_bytes(
    problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], stages: Sequence[int] = ()
) -> list[int]:
    """For each partition what its stage keeps, and the tensors that wait there while it runs.

    A mapping is given by the number of each copy's option, its partition (0, 1, … without a gap) and the stage of each
    partition where stages share out kernels; copies are those of all layers, layer by layer.
    """
    options = [problem.options[i % problem.n][o] for i, o in enumerate(chosen)]
    stage_of = stages or [0] * (max(partitions) + 1)
    at = [stage_of[p] for p in partitions]
    limited = problem.instance.system.memory.capacity_bytes is not None
    copies = exchanged(problem, chosen, partitions).kept if limited else ()
    elsewhere = {(one.maker, v) for one in copies for v in one.users}
    tensors = [(u, v) for u, v in wires(problem, len(chosen) // problem.n) if partitions[u] < partitions[v]]
    physical = problem.instance.mode == "physical"  # a tensor is written once, however many read it
    kept = [0] * (max(stage_of) + 1)
    for option, stage in zip(options, at, strict=True):
        kept[stage] += option.kept
    if options[0].kept_by:
        kept[0] = resting_bytes(options)
    found = [kept[stage] for stage in stage_of]
    there: dict[int, set[int]] = defaultdict(set)
    for u, v in tensors:
        if options[u].waits and (u, v) not in elsewhere:
            for c in range(partitions[u], partitions[v] + 1):
                if (c == partitions[u] or at[v] == stage_of[c]) and not (physical and c in there[u]):
                    found[c] += options[u].waits
                    there[u].add(c)
    if limited:
        _apart(problem, chosen, partitions, copies, found)
    return found


def resting_bytes(options: Sequence[Option]) -> int:
    """Bytes that rest in a chip's DRAM all the time with these options: of stages of unequal numbers of layers in the
    one that keeps most, and where updates run late at the moment at which most is kept."""
    return max(
        sum(option.kept for option in options), *map(sum, zip(*(one.kept_by for one in options), strict=True)), 0
    )


def fits_dram(
    problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], stages: Sequence[int] = ()
) -> bool:
    """Whether a mapping has room in DRAM (C6) while each of its partitions runs."""
    capacity = problem.instance.system.memory.capacity_bytes
    return capacity is None or max(dram_bytes(problem, chosen, partitions, stages)) <= capacity


def _apart(
    problem: DataflowProblem,
    chosen: Sequence[int],
    partitions: Sequence[int],
    copies: Sequence[Kept],
    found: list[int],
) -> None:
    """Add to ``found`` what parameters take beside those at rest while they are used, and tensors that are kept in
    another layout."""
    n, instance = problem.n, problem.instance
    for i, v in enumerate(chosen):
        for use in problem.uses:
            if use.user == i % n:
                found[partitions[i]] += int(use.held[chosen[i - use.user + use.owner], v])
    phase = [kernel.phase for kernel in instance.workload.kernels]
    saved = layers_per_stage(instance, problem.degrees) * in_flight(instance, problem.degrees)
    for one in copies:
        if phase[one.payer % n] == "forward" and any(phase[v % n] == "backward" for v in one.users):
            for c in range(len(found)):
                found[c] += ceil(one.copy.size * saved)
        else:
            for c in range(partitions[one.payer], max(partitions[v] for v in one.users) + 1):
                found[c] += one.copy.size
