"""``dataflow`` beside a planner of tensor placements: the integer program of ``autoparallel``, stated anew.

    python -m benchmarks.dataflow_placements [--time-limit 60] [--only NAME …] [--out FILE]

The planner is meta-pytorch/autoparallel. Its program has one placement per node of a traced graph, and a binary for
each pair of placements of a node and of a node that it reads; it adds up what nodes and pairs cost, within a budget
of memory. Here it has the nodes, options and costs of one layer of family ``dataflow``, kernel by kernel, and HiGHS
solves it. ``dataflow/auto`` solves the same instance, and the checker judges the mappings of both. Exit code 1 where
the two optima differ or the checker refuses a mapping.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.placements_program import PLENTY, Program, costs
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.generators import gpt, llama, moe
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check

#: Eight H100 on a switch; and four such groups: two axes of one mesh.
ONE_AXIS: dict[str, Any] = {"machine": "h100-sxm", "sizes": [8]}
TWO_AXES: dict[str, Any] = {"machine": "h100-sxm", "sizes": [8, 4], "tensor_dimensions": 2}
TRAINING: dict[str, Any] = {"step": "forward", "purpose": "training", "backward": True, "rotary": True}
PREFILL: dict[str, Any] = {"step": "prefill", "purpose": "prefill", "rotary": True, "tokens": 4096}


def asked(made: DataflowInstance, sharing: bool = False) -> DataflowInstance:
    """The instance as the planner's program can state it: kernel by kernel, all chips in one group, times added up,
    every reader pays for its own change of layout, every product for its own sum; DRAM in plenty. With ``sharing``
    readers and sums may share what they pay for."""
    task = made.task.replace(fused=False, overlap=False, keep=None if sharing else "none", degrees=None)
    kernels = tuple(one if sharing else one.replace(adds=()) for one in made.workload.kernels)
    found = made.replace(
        task=task,
        workload=made.workload.replace(kernels=kernels),
        system=made.system.replace(memory=made.system.memory.replace(capacity_bytes=PLENTY)),
    )
    chips = prod(dimension.size for dimension in made.system.network)
    whole = next(one for one in allowed_degrees(found) if one.tensor == chips)
    return found.replace(task=task.replace(degrees=whole))


#: Of the DRAM between the least that a choice manages with and what the fastest one takes; instances with all layers.
TIGHT, DEEP = (0.5, 0.1), ("Llama3 8B, prefill, 8 chips", "Llama3 8B, training, 8 chips")
#: Name -> the instance, still as its generator makes it.
CASES: dict[str, Callable[[], DataflowInstance]] = {
    "Llama3 8B, prefill, 8 chips": lambda: llama(**ONE_AXIS, **PREFILL, batch=8, micro_batch=8, split_tokens=True),
    "Llama3 8B, training, 8 chips": lambda: llama(**ONE_AXIS, **TRAINING, batch=8, micro_batch=8, split_tokens=True),
    "Llama3 8B, training, 8 x 4 chips": lambda: llama(
        **TWO_AXES, **TRAINING, batch=32, micro_batch=32, split_tokens=True
    ),
    "Llama3 70B, training, 8 chips": lambda: llama(
        **ONE_AXIS, **TRAINING, model="llama3-70b", batch=8, micro_batch=8, split_tokens=True
    ),
    "Llama3 70B, prefill, 8 x 4 chips": lambda: llama(
        **TWO_AXES, **PREFILL, model="llama3-70b", batch=8, micro_batch=8, split_weights=True, split_samples=True
    ),
    "GPT3 175B, training, 8 chips": lambda: gpt(**ONE_AXIS, backward=True, batch=8, micro_batch=8),
    "16 experts side by side, 8 chips": lambda: moe(**ONE_AXIS, experts=16, stacked=False, batch=8, micro_batch=8),
}


class Row(NamedTuple):
    """A row of the result: what was solved; both optima in picoseconds, the program's by the order of places too, if
    ours is better; whether the checker agrees; the best with exchanges shared; CPU seconds, and the program's size."""

    name: str
    kernels: int
    options: int
    products: int
    optimum: int
    by_places: int
    ours: int | None
    reason: str
    agrees: bool
    relaxed: float
    sharing: int | None
    seconds: tuple[float, float, float]

    @property
    def equal(self) -> bool:
        """Whether both optima and the checker's value are the same."""
        return self.reason == "optimal" and self.ours == self.optimum and self.agrees

    @property
    def line(self) -> str:
        """The row in Markdown."""
        loose, shared = max(0.0, 100 * (1 - self.relaxed / self.optimum)), ""
        if self.sharing is not None:
            shared = f"{self.sharing / 1e9:,.3f}"
        cells = [self.name, f"{self.kernels:,}", f"{self.options:,}", f"{self.products:,}"]
        cells += [f"{self.by_places / 1e9:,.3f}", f"{self.optimum / 1e9:,.3f}", f"{(self.ours or 0) / 1e9:,.3f}"]
        cells += ["yes" if self.equal else "NO", f"{loose:.2f}%", *(f"{one:.3f}" for one in self.seconds), shared]
        return f"| {' | '.join(cells)} |"


def ours(instance: DataflowInstance, limit: float) -> tuple[Run, str, float]:
    """``dataflow/auto``: its run, how it ended, and CPU seconds."""
    began = time.process_time()
    run = Run(instance, SolveOptions(time_limit=limit, threads=1), check)
    reason = auto(instance, run).reason
    return run, reason, time.process_time() - began


def compared(
    name: str, instance: DataflowInstance, limit: float, capacity: int | None = None, sharing: int | None = None
) -> tuple[Row, Program]:
    """A row, and the program; within ``capacity`` bytes of DRAM."""
    if capacity is not None:
        memory = instance.system.memory.replace(capacity_bytes=capacity)
        instance = instance.replace(system=instance.system.replace(memory=memory))
    degrees = instance.task.degrees
    assert degrees is not None
    run, reason, took = ours(instance, limit)
    began = time.process_time()
    problem = dataflow_problem(instance, degrees)
    order: tuple[int, ...] = problem.places
    program = Program(costs(problem, order), problem.sram)
    if capacity is not None:
        program.within(capacity)
    built = time.process_time() - began
    found = program.solve(limit)
    value = by_places = program.value(found.chosen)
    if run.best and run.best.objective < value and isinstance(run.best.solution, DataflowSolution):
        order = run.best.solution.partitions
        program = Program(costs(problem, order), problem.sram)
        program.within(capacity or PLENTY)
        found = program.solve(limit)
        value = program.value(found.chosen)
    options = problem.options * instance.mapped_layers
    schemes = [own[s].scheme for own, s in zip(options, found.chosen, strict=True)]
    judged = check(instance, problem.mapping(schemes, order, ()))
    row = Row(
        name=name,
        kernels=len(options),
        options=sum(program.sizes),
        products=found.pairs,
        optimum=value,
        by_places=by_places,
        ours=run.upper,
        reason=reason,
        agrees=judged.feasible and judged.objective == value,
        relaxed=found.relaxed,
        sharing=sharing,
        seconds=(built, found.seconds, took),
    )
    print(row, file=sys.stderr, flush=True)
    return row, program


def rows(only: list[str], limit: float) -> Iterator[Row]:
    """All rows: each case with plenty of DRAM and with little, then whole networks."""
    for name, make in CASES.items():
        if only and name not in only:
            continue
        instance, (shared, reason, _) = asked(make()), ours(asked(make(), sharing=True), limit)
        row, program = compared(name, instance, limit, sharing=shared.upper if reason == "optimal" else None)
        yield row
        least, most = program.least_peak(limit), program.peak(program.solve(limit).chosen)
        for part in TIGHT if least < most else ():
            capacity = least + int(part * (most - least))
            yield compared(f"the same, {capacity / 1e9:.3f} GB of DRAM", instance, limit, capacity)[0]
    for name in DEEP:
        if not only or name in only:
            made = CASES[name]()
            instance = asked(made.replace(task=made.task.replace(across_layers=True)))
            yield compared(f"{name}, all layers apart", instance, limit)[0]


def report(found: list[Row], limit: float) -> str:
    """The page."""
    head = f"Python {platform.python_version()}, {platform.machine()}, one thread, load {os.getloadavg()[0]:.1f}"
    lines = [
        "# Placements of tensors: the program of a planner, and ours\n",
        f"`python -m benchmarks.dataflow_placements --time-limit {limit:g}`, {head} on {os.cpu_count()} cores. CPU "
        "seconds. [What the columns mean](../../docs/families/dataflow-results.md#a-planner-of-tensor-placements).\n",
        "| instance | kernels | options | products | program by places, ms | program, ms | `dataflow/auto`, ms | "
        "equal, checked | relaxation below | its rows, s | HiGHS, s | `dataflow/auto`, s | exchanges shared, ms |",
        "|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|",
        *(row.line for row in found),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare, and write or print the page; 1 where an optimum differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    first = asked(CASES[next(iter(CASES))]())
    compared("", first, args.time_limit, 10**10)  # compiled functions are loaded
    found = list(rows(args.only, args.time_limit))
    page = report(found, args.time_limit)
    if args.out:
        args.out.write_text(page)
    print(page)
    return int(not all(row.equal for row in found))


if __name__ == "__main__":
    sys.exit(main())
