"""What each kernel takes as a partition of its own: arrays over its own schemes and those of the kernels it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.deadline import look
from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray, wires


class Read(NamedTuple):
    """A tensor that a kernel reads, by the options of its ``maker``: picoseconds of DRAM, bytes of SRAM, and for each
    option of the reader [maker's, reader's] picoseconds of the change of layout."""

    maker: int
    dram: IntArray
    held: IntArray
    converts: IntArray


class Single(NamedTuple):
    """One kernel by itself, by its options: compute, DRAM for weights and its output, collectives, SRAM; what it reads;
    and how often it runs."""

    compute: IntArray
    memory: IntArray
    network: IntArray
    held: IntArray
    reads: tuple[Read, ...]
    runs: int


class SingleKernelCosts:
    """The kernels of a problem (of all layers where mappings are of all), each a partition of its own.

    T4 is the sum over kernels v of runs · (launch + max(compute, memory, network)), or with their sum where nothing
    overlaps. Memory
    is the kernel's stream, one write of its output (one per reader in mode ``dfmodel``) and one read of each
    tensor that it reads. Network is its collectives and the changes of layout of what it reads. A kernel that has more
    than the ``sram`` bytes doesn't fit (C2).
    """

    def __init__(self, problem: DataflowProblem) -> None:
        instance, n = problem.instance, problem.n
        self.problem, self.sram, self.overlap = problem, problem.sram, instance.task.overlap
        self.launch = problem.launch
        layers = instance.mapped_layers
        self.tensors = wires(problem, layers)
        self.sizes = [len(options) for options in problem.options] * layers
        again = runs(instance)
        readers = np.bincount([u for u, _ in self.tensors], minlength=n * layers)
        if instance.mode == "physical":  # a tensor is written once, however many read it
            readers = np.minimum(readers, 1)
        alone = problem.shares if instance.task.utilisation is None else ()
        reads: list[list[Read]] = [[] for _ in self.sizes]
        self._changes: dict[tuple[int, int], IntArray] = {}
        columns = [_columns(options) for options in problem.options]
        for u, v in self.tensors:
            of = columns[u % n]
            reads[v].append(Read(u, of["dram"], 2 * of["buffer"], self._converts(u % n, v % n)))
        self.singles = []
        for v in range(len(self.sizes)):
            of, leaves = columns[v % n], int(readers[v])
            compute = np.array([int(one[-1, 1]) for one in alone[v % n]]) if alone else of["compute"]
            self.singles.append(
                Single(
                    compute,
                    of["stream"] + leaves * of["dram"],
                    of["collective"],
                    of["weights"] + 2 * leaves * of["buffer"],
                    tuple(reads[v]),
                    again[v % n],
                )
            )

    def _converts(self, u: int, v: int) -> IntArray:
        if (u, v) not in self._changes:
            look()
            problem = self.problem
            made, taken = range(len(problem.options[u])), range(len(problem.options[v]))
            found = [[problem.converts(u, v, s, t) for t in taken] for s in made]
            self._changes[u, v] = np.array(found, dtype=np.int64)
        return self._changes[u, v]

    def ticks(self, v: int, chosen: Sequence[int]) -> int | None:
        """Picoseconds of kernel v per micro-batch with these options of all kernels; None where it doesn't fit."""
        one, own = self.singles[v], chosen[v]
        compute, memory, network, held = (int(a[own]) for a in one[:4])
        for read in one.reads:
            made = chosen[read.maker]
            memory, held = memory + int(read.dram[made]), held + int(read.held[made])
            network += int(read.converts[made, own])
        if held > self.sram:
            return None
        longest = max(compute, memory, network) if self.overlap else compute + memory + network
        return one.runs * (self.launch + longest)


def _columns(options: Sequence[object]) -> dict[str, IntArray]:
    names = ("compute", "stream", "collective", "weights", "dram", "buffer")
    return {name: np.array([getattr(o, name) for o in options], dtype=np.int64) for name in names}
