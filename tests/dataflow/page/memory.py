"""What SRAM and DRAM hold: C2 and C6 of ``docs/families/dataflow.md``, "Constraints" and "DRAM", with
``dataflow-training.md``, ``dataflow-schedules.md`` and ``dataflow-stages.md``."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from chipmap.instances.dataflow.workload import Kernel
from tests.dataflow.page import amounts, exchanges, network, pairs
from tests.dataflow.page.amounts import PageCase


@dataclass(frozen=True)
class Mapped:
    """A mapping: for each copy of a kernel (layer, kernel, scheme, partition), the edges between copies, those that a
    layer hands to the next, and the stage of each partition (where stages share out kernels)."""

    case: PageCase
    copies: tuple[tuple[int, Kernel, str, int], ...]
    edges: tuple[tuple[int, int], ...]
    handed: tuple[tuple[int, int], ...]
    stages: tuple[int, ...]

    def stage(self, partition: int) -> int:
        return self.stages[partition] if self.stages else 0

    @cached_property
    def partitions(self) -> dict[int, list[tuple[Kernel, str]]]:
        """The kernels of each partition in use, with their schemes."""
        found: dict[int, list[tuple[Kernel, str]]] = defaultdict(list)
        for _, kernel, scheme, p in self.copies:
            found[p].append((kernel, scheme))
        return dict(found)

    @cached_property
    def order(self) -> list[int]:
        """The copies in the order of running."""
        return exchanges.in_order(self)

    @cached_property
    def suppliers(self) -> dict[tuple[int, int], int]:
        """(maker, reader): who has paid for what the reader reads."""
        return exchanges.suppliers(self)

    @cached_property
    def copied(self) -> list[exchanges.Copied]:
        return exchanges.copied(self)

    @cached_property
    def elsewhere(self) -> set[tuple[int, int]]:
        """(maker, reader) where the reader reads a copy."""
        return {(one.maker, v) for one in self.copied for v in one.readers}

    @cached_property
    def added(self) -> dict[int, list[int]]:
        """The makers that a kernel adds up, if they are two or more."""
        if not self.case.physical:
            return {}
        return {
            i: [self.named(layer, name) for name in kernel.adds]
            for i, (layer, kernel, _, _) in enumerate(self.copies)
            if len(kernel.adds) > 1
        }

    @cached_property
    def parameters(self) -> dict[int, int]:
        """The forward kernel whose parameters a backward one names."""
        named = {i: (layer, kernel.parameters_of) for i, (layer, kernel, _, _) in enumerate(self.copies)}
        return {i: self.named(*one) for i, one in named.items() if one[1] and self.case.physical}

    def named(self, layer: int, name: str) -> int:
        return next(i for i, one in enumerate(self.copies) if one[0] == layer and one[1].name == name)

    def end(self, copy: int) -> network.End:
        return self.copies[copy][1:3]

    def change(self, u: int, v: int) -> int:
        """Ticks of a change of layout."""
        return network.change(self.case, self.end(u), self.end(v))

    def output(self, copy: int) -> Fraction:
        """Bytes that a copy of a kernel leaves on a chip."""
        _, kernel, scheme, _ = self.copies[copy]
        if scheme in exchanges.PARTIAL_SUMS and any(copy in makers for makers in self.added.values()):
            return amounts.tensor(self.case, kernel)
        return amounts.output(self.case, kernel, scheme)

    def crosses(self, u: int, v: int) -> bool:
        return self.copies[u][3] != self.copies[v][3]


def levels(mapped: Mapped) -> list[int]:
    """The most edges of a path to each copy: plain relaxation, as often as there are copies."""
    level = [0] * len(mapped.copies)
    for _ in level:
        for u, v in mapped.edges:
            level[v] = max(level[v], level[u] + 1)
    return level


def sram(mapped: Mapped) -> dict[int, int]:
    """C2: bytes of each partition."""
    case, held, level = mapped.case, dict.fromkeys(mapped.partitions, 0), levels(mapped)
    for _, kernel, scheme, p in mapped.copies:
        if not case.instance.system.chip.streams:
            held[p] += math.ceil(amounts.held_weights(case, kernel, scheme))
    tokens, seen = case.instance.workload.tokens * case.b, set[tuple[int, int]]()
    for one in mapped.copied:
        for i in (one.supplier, *one.readers):
            held[mapped.copies[i][3]] += 2 * math.ceil(one.size * case.instance.task.tile_tokens / tokens)
    for u, v in mapped.edges:
        if (u, v) in mapped.elsewhere:
            continue
        buffer = math.ceil(mapped.output(u) * case.instance.task.tile_tokens / tokens)
        if not mapped.crosses(u, v):
            held[mapped.copies[u][3]] += buffer * (level[v] - level[u] + 1)
            continue
        for p in (mapped.copies[u][3], mapped.copies[v][3]):
            if not case.physical or (u, p) not in seen:
                held[p] += 2 * buffer
            seen.add((u, p))
    return held


def cached(mapped: Mapped) -> bool:
    """Whether the KV cache of all samples stays in the SRAM of a chip whose one partition this is."""
    case, total = mapped.case, 0
    for _, kernel, scheme, _ in mapped.copies:
        samples = Fraction(case.instance.task.batch, case.degrees.data)
        total += math.ceil(amounts.fetched(case, kernel, scheme) * samples)
    return total + max(sram(mapped).values()) <= case.instance.system.chip.sram_bytes


def kept(case: PageCase) -> set[str]:
    """Forward kernels whose outputs are kept for the backward phase, in mode ``physical``."""
    kernels = {one.name: one for one in case.instance.workload.kernels}
    if not case.physical or all(one.phase == "forward" for one in kernels.values()):
        return set()
    forward = {name for name, one in kernels.items() if one.phase == "forward"}
    found = {u for u, v in case.instance.workload.carries if u in forward and v in case.again}
    if case.recompute == "full":
        return {u for u, _ in case.instance.workload.carries if u in forward}
    for u, v in case.instance.workload.edges:
        if u in forward - case.again and (v not in forward or v in case.again):
            found.add(u)
    return found


def in_flight(case: PageCase) -> Fraction:
    """Micro-batches of which the first stage holds what is kept."""
    stages, v = case.degrees.pipeline, case.chunks
    if v == 1:
        return Fraction(min(case.m, stages))
    return min(Fraction(case.m), stages + Fraction(stages - 1, v))


def _parameters(case: PageCase, kernel: Kernel, scheme: str) -> Fraction:
    """Weights, gradients and state of a forward kernel in all layers of a stage."""
    task, layers = case.instance.task, case.layers
    own, word = amounts.parameters(case, kernel, scheme), Fraction(amounts.bits(case, _weight_format(case)), 8)
    training = task.purpose == "training"
    stated = task.optimizer_bytes
    state = own / word * (stated if stated is not None else 12 if case.physical else 0)
    if not case.physical:
        return layers * state if training else Fraction(0)
    if not training:
        return layers * own
    d = case.degrees.data // (case.degrees.expert if scheme == "E" else 1)
    what = network.shared_out(case, scheme)
    weights = layers * own / d + min(2, layers) * own if what == "weights" else layers * own
    gradients = layers * own / d + own if what in ("gradients", "weights") else layers * own
    return weights + gradients + layers * state / (1 if what == "none" else d)


def _weight_format(case: PageCase) -> str:
    return case.instance.workload.weight_format


def resting(mapped: Mapped) -> dict[int, int]:
    """C6: bytes that always rest on a chip of each stage (stage 0 where all are alike)."""
    case, found, saved = mapped.case, dict[int, int](), kept(mapped.case)
    task = case.instance.task
    late = pairs.late_moments(case)
    if late:
        found[0] = max(_at(mapped, before, after) for before, after in late)
    for i, (_, kernel, scheme, p) in enumerate(() if late else mapped.copies):
        total = _parameters(case, kernel, scheme) if kernel.phase == "forward" else Fraction(0)
        if kernel.name in saved:
            total += in_flight(case) * case.layers * mapped.output(i)
        if task.purpose == "decode" and case.physical:
            samples = Fraction(task.batch, case.degrees.data)
            total += case.layers * samples * amounts.fetched(case, kernel, scheme)
        found[mapped.stage(p)] = found.get(mapped.stage(p), 0) + math.ceil(total)
    for one in mapped.copied:
        if saves(mapped, one):
            found[0] += math.ceil(math.ceil(one.size) * case.layers * in_flight(case))
    return found


def _at(mapped: Mapped, before: int, after: int) -> int:
    """C6 of one moment: a stage's parameters; so many passes through a layer between F and B, and between B and W."""
    case, total, saved = mapped.case, 0, kept(mapped.case)
    updates = {one.name for one in case.instance.workload.kernels if one.update}
    read = {u for u, v in case.instance.workload.edges if v in updates}
    for i, (_, kernel, scheme, _) in enumerate(mapped.copies):
        held = _parameters(case, kernel, scheme) if kernel.phase == "forward" else Fraction(0)
        held += mapped.output(i) * (before * (kernel.name in saved) + after * (kernel.name in read))
        total += math.ceil(held)
    return total


def saves(mapped: Mapped, one: exchanges.Copied) -> bool:
    """Whether a copy is saved for the backward phase, so that it doesn't wait."""
    phases = [mapped.copies[i][1].phase for i in (one.supplier, *one.readers)]
    return phases[0] == "forward" and "backward" in phases


def dram(mapped: Mapped) -> dict[int, int]:
    """C6: bytes that a chip holds while each partition runs."""
    case, rest, saved = mapped.case, resting(mapped), kept(mapped.case)
    backward = {p for _, kernel, _, p in mapped.copies if kernel.phase == "backward"}
    order = sorted(mapped.partitions, key=lambda p: (p in backward, p))
    place = {p: i for i, p in enumerate(order)}
    held = {p: rest[mapped.stage(p)] for p in order}
    for c in order:
        waits = set[int]()
        for u, v in mapped.edges:
            (_, kernel, _, made), read = mapped.copies[u], mapped.copies[v][3]
            if kernel.name in saved and kernel.name not in case.again:
                continue  # it rests already
            there = place[made] <= place[c] <= place[read] and place[made] < place[read]
            there = there and (u, v) not in mapped.elsewhere
            if there and mapped.stages:
                there = c == made or mapped.stage(c) == mapped.stage(read)
            if there and not (case.physical and u in waits):
                held[c] += math.ceil(mapped.output(u))
                waits.add(u)
        for one in mapped.copied:
            last = max(place[mapped.copies[v][3]] for v in one.readers)
            if not saves(mapped, one) and place[mapped.copies[one.supplier][3]] <= place[c] <= last:
                held[c] += math.ceil(one.size)
        for b, f in mapped.parameters.items():
            if mapped.copies[b][3] == c and not mapped.copies[b][1].update:
                held[c] += exchanges.beside_rest(mapped, b, f)
    return held
