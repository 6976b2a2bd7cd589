"""What each kernel takes as a partition of its own: arrays over its own schemes and those of the kernels it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipmap.deadline import look
from chipmap.heuristics.dataflow.unfused.parts import Extra, Part, Parts, Read, Rule
from chipmap.instances.dataflow.batch import runs
from chipmap.instances.dataflow.exchanged import exchanged
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem, IntArray, wires

#: Tensors between two looks at the clock.
LOOK = 64
#: Fields of the options of a kernel, by name.
Columns = dict[str, IntArray]


class Single(NamedTuple):
    """One kernel by itself, by its options: compute, DRAM for weights and its output, collectives, SRAM; and how often
    it runs. ``parts`` is what it takes besides, as others' options have it; ``reads`` is the same as if each kernel
    paid for itself, parameters of which it uses another part among it."""

    compute: IntArray
    memory: IntArray
    network: IntArray
    held: IntArray
    parts: tuple[Part, ...]
    reads: tuple[Read, ...]
    runs: int


class SingleKernelCosts:
    """The kernels of a problem (of all layers where mappings are of all), each a partition of its own.

    T4 is the sum over kernels v of runs · (launch + max(compute, memory, network)), or with their sum where nothing
    overlaps. Memory is the kernel's stream, one write of its output (one per reader in mode ``dfmodel``), and what it
    takes of each tensor that it reads. Network is its collectives, the changes of layout of what it reads, sums that it
    makes with others, and parameters that rest elsewhere. A kernel that has more than the ``sram`` bytes doesn't fit
    (C2).

    ``sizes`` are the values of variables: the options of each of ``kernels``, then those of which ``rules`` say what
    goes together; ``extras`` count for the batch. Unless it is ``exact`` each kernel pays for itself, and for its own
    sum, as if it were alone: a rough guide to good options, without any further variables. With ``few`` tables are over
    fewer readers of a tensor, and there are more variables. Kernels that are alike share arrays; ``known`` are tables
    that were made of them.
    """

    def __init__(self, problem: DataflowProblem, exact: bool = True, few: bool = False) -> None:
        instance, n = problem.instance, problem.n
        self.problem, self.sram, self.overlap = problem, problem.sram, instance.task.overlap
        self.launch = problem.launch
        layers = instance.mapped_layers
        self.kernels = n * layers
        self.tensors = wires(problem, layers)
        self.sizes = [len(options) for options in problem.options] * layers
        self.rules, self.extras = list[Rule](), list[Extra]()
        readers = np.bincount([u for u, _ in self.tensors], minlength=self.kernels)
        if instance.mode == "physical":  # a tensor is written once, however many read it
            readers = np.minimum(readers, 1)
        self.known: dict[object, IntArray] = {}
        alike: dict[tuple[Option, ...], Columns] = {}
        columns = [alike.get(some) or alike.setdefault(some, _columns(some)) for some in problem.options]
        reads = self._reads(columns)
        if exact:
            parts = Parts(problem, reads, self.sizes, few)
            self.sizes, self.rules, self.extras, each = parts.sizes, parts.rules, parts.extras, parts.of
        self._with_uses(reads)
        if not exact:
            wide: dict[tuple[int, ...], tuple[IntArray, ...]] = {}
            each = [[_by_itself(read, v, self.sizes[v], wide) for read in some] for v, some in enumerate(reads)]
        alone = problem.shares if instance.task.utilisation is None else ()
        again, sums = runs(instance), {} if exact else _own_sums(problem)
        self.singles, made = list[Single](), dict[tuple[int, ...], Single]()
        for v in range(self.kernels):
            of, leaves = columns[v % n], int(readers[v])
            key = id(of), leaves, v % n if alone or v % n in sums else -1
            if key not in made:
                made[key] = Single(
                    np.array([int(one[-1, 1]) for one in alone[v % n]]) if alone else of["compute"],
                    of["stream"] + leaves * of["dram"],
                    of["collective"] + sums.get(v % n, 0),
                    of["weights"] + leaves * of["buffers"],
                    parts=(),
                    reads=(),
                    runs=0,
                )
            self.singles.append(made[key]._replace(parts=tuple(each[v]), reads=tuple(reads[v]), runs=again[v % n]))

    def _reads(self, columns: Sequence[Columns]) -> list[list[Read]]:
        n, reads = self.problem.n, [list[Read]() for _ in range(self.kernels)]
        for number, (u, v) in enumerate(self.tensors):
            if number % LOOK == 0:
                look()
            of = columns[u % n]
            reads[v].append(Read(u, of["dram"], of["buffers"], self.problem.changes(u % n, v % n).ticks))
        return reads

    def _with_uses(self, reads: list[list[Read]]) -> None:
        """Parameters that a kernel uses count among what it reads."""
        for k in range(0, self.kernels, self.problem.n):
            for use in self.problem.uses:
                if use.network.any():
                    nothing = np.zeros(len(use.network), np.int64)
                    reads[k + use.user].append(Read(k + use.owner, nothing, nothing, use.network))

    def ticks(self, chosen: Sequence[int], partitions: Sequence[int]) -> list[int] | None:
        """Picoseconds of each kernel per micro-batch with these options of all kernels, a partition each; None where
        one doesn't fit."""
        each, join = self.taken(chosen, partitions), max if self.overlap else sum
        if each is None:
            return None
        return [one.runs * (self.launch + join(some)) for one, some in zip(self.singles, each, strict=True)]

    def taken(self, chosen: Sequence[int], partitions: Sequence[int]) -> list[tuple[int, int, int]] | None:
        """Picoseconds of compute, memory and network of each kernel, each time that it runs, as :meth:`ticks`."""
        problem, found = self.problem, list[tuple[int, int, int]]()
        paid = exchanged(problem, chosen, partitions, between=False)
        memory, held = [0] * self.kernels, [0] * self.kernels
        elsewhere = set[tuple[int, int]]()
        for kept in paid.kept:
            for v in (kept.payer, *kept.users):
                memory[v], held[v] = memory[v] + kept.copy.dram, held[v] + 2 * kept.copy.buffer
            elsewhere |= {(kept.maker, v) for v in kept.users}
        for u, v in self.tensors:
            if (u, v) not in elsewhere:
                option = problem.options[u % problem.n][chosen[u]]
                memory[v], held[v] = memory[v] + option.dram, held[v] + 2 * option.buffer
        for v, one in enumerate(self.singles):
            own = chosen[v]
            network = problem.options[v % problem.n][own].collective + paid.sums[v] + paid.changes[v]
            if int(one.held[own]) + held[v] > self.sram:
                return None
            found.append((int(one.compute[own]), int(one.memory[own]) + memory[v], network))
        return found


def _by_itself(read: Read, v: int, size: int, known: dict[tuple[int, ...], tuple[IntArray, ...]]) -> Part:
    """What kernel v, of this ``size``, takes if it pays for all itself; ``known`` by the arrays of what it reads."""
    key = id(read.dram), id(read.converts), id(read.held)
    if key not in known:
        columns = read.dram[:, None], read.converts, read.held[:, None]
        known[key] = tuple(np.broadcast_to(one, (len(read.dram), size)) for one in columns)
    return Part((read.maker, v), *known[key])


def _own_sums(problem: DataflowProblem) -> dict[int, IntArray]:
    """The collective of each product that another kernel adds up, by its option."""
    found = dict[int, IntArray]()
    for added in problem.added:
        ticks = np.array([*added.ticks, 0], dtype=np.int64)
        found |= {u: ticks[numbers] for u, numbers in zip(added.members, added.sums, strict=True)}
    return found


def _columns(options: Sequence[Option]) -> Columns:
    """Fields of options, and ``buffers``: two of the output."""
    names = ("compute", "stream", "collective", "weights", "dram", "buffer")
    found = {name: np.array([getattr(o, name) for o in options], dtype=np.int64) for name in names}
    return found | {"buffers": 2 * found["buffer"]}
