"""What both models of family ``dataflow`` are stated over: copies of kernels, slots for partitions, tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chipmap.deadline import look
from chipmap.formulations.dataflow.tables_exchanges import Exchanges, exchanges, marked_cells
from chipmap.formulations.dataflow.tables_slots import (
    fused,
    given_slots,
    phase_slots,
    refuse_another,
    refuse_too_large,
    set_places,
    slots_in_phases,
    slots_in_stages,
    stage_slots,
    stages_of,
)
from chipmap.formulations.dataflow.tables_tensors import Tensor, stored_as, tensor_of
from chipmap.instances.dataflow import batch_time
from chipmap.instances.dataflow.alike import Alike, alike
from chipmap.instances.dataflow.batch import in_turn, runs, waited_hops
from chipmap.instances.dataflow.batch_time import BESIDE, batch_factor, resident, stage_ticks, steps
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.layer_handover import handovers
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.pairs import parts_of_time
from chipmap.instances.dataflow.problem import DataflowProblem, levels, wires
from chipmap.instances.dataflow.tiles import sharing
from chipmap.records import InputError


@dataclass(frozen=True, eq=False)
class Tables:
    """A problem's copies: of its n kernels, or of all layers' where partitions reach across, layer by layer.

    ``slots`` [copies] are the partitions that each may lie in: those of its phase, forward first. ``place`` [copies]:
    the slot of each where it is known (:func:`set_places`), else empty. ``stages`` are the slots of each stage, in a
    row, where stages share out kernels (else none); ``place`` then counts from the stage's first. ``handovers`` are
    tensors from a layer to the next, of which only the changes of layout count. ``exchanges`` are what copies pay
    beside, as it depends on others.
    """

    problem: DataflowProblem
    kernel: tuple[int, ...]
    tensors: tuple[Tensor, ...]
    slots: tuple[range, ...]
    place: tuple[int, ...]
    exchanges: Exchanges
    stages: tuple[range, ...] = ()
    handovers: tuple[Tensor, ...] = ()

    @cached_property
    def linked(self) -> tuple[Tensor, ...]:
        """All that may change its layout: the tensors, after them the hand-overs between layers, and parameters."""
        return (*self.tensors, *self.handovers, *self.exchanges.uses)

    @cached_property
    def blocks(self) -> tuple[range, ...]:
        """Slots that are numbered by themselves: of a stage of kernels, or of a phase."""
        return self.stages or self.phases

    @cached_property
    def phases(self) -> tuple[range, ...]:
        """The slots of each phase that has kernels."""
        return tuple(sorted(set(self.slots), key=lambda one: one.start))

    def shut(self, i: int, c: int) -> bool:
        """Whether copy i never lies in slot c, as its place among those of a stage (or of all) is another."""
        return bool(self.place) and c % len(self.blocks[0] if self.stages else range(self.count)) != self.place[i]

    @property
    def fixed_places(self) -> bool:
        """Whether every copy has one slot that it may lie in."""
        return bool(self.place) and len(self.stages) <= 1

    @property
    def exactly(self) -> bool:
        """Whether no slot is empty."""
        return self.problem.instance.task.exactly and fused(self.problem.instance)

    @property
    def count(self) -> int:
        """Number of slots."""
        return self.phases[-1].stop

    @property
    def copies(self) -> range:
        """Numbers of the copies."""
        return range(len(self.kernel))

    def options(self, i: int) -> tuple[Option, ...]:
        """The options of copy i."""
        return self.problem.options[self.kernel[i]]

    @cached_property
    def several(self) -> tuple[int, ...]:
        """The copies that have a choice of schemes."""
        return tuple(i for i in self.copies if len(self.options(i)) > 1)

    def inside(self, c: int) -> list[int]:
        """The copies that may lie in slot c."""
        look()
        return [i for i in self.copies if c in self.slots[i]]

    @cached_property
    def leaving(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the tensors that each copy makes."""
        made: list[list[int]] = [[] for _ in self.copies]
        for e, t in enumerate(self.tensors):
            made[t.u].append(e)
        return tuple(map(tuple, made))

    @cached_property
    def last(self) -> tuple[int, ...]:
        """The copies that no copy of their own phase reads: where they are, nobody of the phase is later."""
        feeds = {t.u for t in self.tensors if self.slots[t.u] == self.slots[t.v]}
        return tuple(i for i in self.copies if i not in feeds)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The copies of each group of kernels pinned together, layer by layer."""
        kernels = self.problem.instance.workload.kernels
        index = {kernel.name: k for k, kernel in enumerate(kernels)}
        starts = range(0, len(self.kernel), self.problem.n)
        together = self.problem.instance.task.together
        return tuple(tuple(start + index[name] for name in group) for start in starts for group in together if group)

    @cached_property
    def strays(self) -> frozenset[int]:
        """The copies that are pinned to one of the other phase."""
        return frozenset(i for group in self.groups for i in group[1:] if self.slots[i] != self.slots[group[0]])

    def leaders(self, c: int) -> list[int]:
        """One copy of each group that may lie in slot c."""
        return [group[0] for group in self.groups if c in self.slots[group[0]]]

    def amount(self, i: int, m: int, field: str) -> int:
        """What a column of options says of the output of copy i under its class m: its DRAM time or buffer."""
        value: int = getattr(self.options(i)[self.stored(i)[m][0]], field)
        return value

    def amounts(self, i: int, field: str) -> list[int]:
        """A column of the options of copy i; only its one value where all are alike."""
        values = [getattr(option, field) for option in self.options(i)]
        return values[:1] if len(set(values)) == 1 else values

    def shares(self, i: int) -> tuple[tuple[Alike, list[tuple[int, int]]], ...]:
        """The options of copy i, parted by their lists of (tiles, picoseconds); none where a utilisation is given."""
        listed = self.problem.shares
        if not listed:
            return ()
        each = [tuple((size, time) for size, time in one.tolist()) for one in listed[self.kernel[i]]]
        return tuple((options, list(each[options[0]])) for options in alike(each))

    def slowest(self, i: int) -> int:
        """The longest picoseconds of the shares of copy i; 0 where a utilisation is given."""
        return max((points[0][1] for _, points in self.shares(i)), default=0)

    def stored(self, i: int) -> tuple[Alike, ...]:
        """The options of copy i, parted by the DRAM time, the buffer, the bytes in DRAM, and the transfer to the next
        stage of its output."""
        return self._stored[self.kernel[i]]

    @cached_property
    def _stored(self) -> tuple[tuple[Alike, ...], ...]:
        return tuple(alike([stored_as(option) for option in options]) for options in self.problem.options)

    def changes(self, c: int) -> Iterator[tuple[int, int, int, int]]:
        """(e, g, h, picoseconds) of every change of layout that copies in slot c may have to pay."""
        for e, t in enumerate(self.linked):
            for g, row in enumerate(t.converts) if c in self.slots[t.v] else ():
                yield from ((e, g, h, change) for h, change in enumerate(row) if change)

    def crossings(self, field: str) -> Iterator[tuple[int, int, int]]:
        """(i, e, m) of every tensor e and class m of its producer i whose column of options isn't 0."""
        for e, t in enumerate(self.tensors):
            yield from ((t.u, e, m) for m in range(len(self.stored(t.u))) if self.amount(t.u, m, field))

    @cached_property
    def multicast(self) -> bool:
        """Whether a tensor is written once, whatever reads it, and read once per partition."""
        return self.problem.instance.mode == "physical"

    @cached_property
    def spares(self) -> int:
        """Picoseconds of weights that a chip need not read if it runs nothing but one partition; 0 if it can't."""
        return sum(max(o.spared for o in self.options(i)) for i in self.copies) if resident(self.problem) else 0

    @cached_property
    def single(self) -> dict[int, int]:
        """The block of each slot that may hold the one partition of a chip: its first, or any where places are set."""
        if not self.spares:
            return {}
        every = bool(self.place) and not self.fixed_places
        return {c: b for b, block in enumerate(self.blocks) for c in (block if every else block[:1])}

    @cached_property
    def caching(self) -> bool:
        """Whether a KV cache may stay in SRAM."""
        return batch_time.caching(self.problem)

    @cached_property
    def longest(self) -> int:
        """No mapping's layer takes more picoseconds."""
        own = sum(max(o.compute + o.collective + o.stream for o in self.options(i)) for i in self.copies)
        own += sum(map(self.slowest, self.copies)) + len(self.copies) * self.problem.launch
        moved = [2 * max(o.dram for o in self.options(t.u)) for t in self.tensors]
        changed = [max(map(max, t.converts)) for t in self.linked]
        return max(runs(self.problem.instance)) * (own + sum(moved) + sum(changed) + self.exchanges.longest)

    @cached_property
    def shortest(self) -> int:
        """No mapping's layer takes fewer picoseconds."""
        return sum(k * min(o.compute for o in self.options(i)) for i, k in enumerate(self.often))

    @cached_property
    def paces(self) -> int:
        """Parts of a picosecond that layers' times have."""
        return parts_of_time(self.problem)

    @cached_property
    def often(self) -> tuple[int, ...]:
        """How often each copy runs per micro-batch: twice where it is recomputed."""
        return tuple(map(runs(self.problem.instance).__getitem__, self.kernel))

    @cached_property
    def split(self) -> tuple[int, ...]:
        """The slots that may hold copies that run twice, or others, but not both (C3)."""
        kinds = ({self.often[i] for i in self.inside(c) if not self.shut(i, c)} for c in range(self.count))
        return tuple(c for c, each in enumerate(kinds) if len(each) > 1)

    def runs(self, c: int) -> int:
        """How often slot c runs per micro-batch at least."""
        return min((self.often[i] for i in self.inside(c) if not self.shut(i, c)), default=1)

    @cached_property
    def longest_link(self) -> int:
        """No link between two stages of kernels takes more picoseconds."""
        each = (max(o.link for o in self.options(t.u)) for t in self.tensors)
        return sum(each) if len(self.stages) > 1 else 0

    @cached_property
    def shortest_step(self) -> int:
        """No step of a pipeline whose stages share out kernels takes fewer picoseconds."""
        return batch_time.compute_ticks(self.problem) // max(1, steps(self.problem))

    def most(self, upper: int | None) -> int | None:
        """The longest layer, in :attr:`paces` (of stages of kernels: step), of a batch within ``upper`` ticks."""
        if self.stages:
            return None if upper is None else upper // max(1, steps(self.problem))
        factor = batch_factor(self.problem)  # 0 for degrees that don't fit
        if upper is None or not factor:
            return None
        if self.problem.longest is not None:
            return max(0, batch_time.first_layer(self.problem, upper + 1) - 1)
        hop, after, summed = (batch_time.outside(self.problem, field) for field in BESIDE)
        after += batch_time.exposed_ticks(self.problem, summed) - self.problem.filled + self.problem.passes
        after += waited_hops(self.problem.instance, self.problem.degrees) * hop
        return int((upper - after) * self.paces // factor)

    def outside(self, field: str) -> tuple[int, list[tuple[int, int, int]]]:
        """The least sum of a column of options over all copies, and what (copy, option) adds to it."""
        more = [
            (i, number, getattr(option, field) - min(getattr(other, field) for other in self.options(i)))
            for i in self.several
            for number, option in enumerate(self.options(i))
        ]
        return batch_time.outside(self.problem, field), [one for one in more if one[2]]

    @cached_property
    def slower(self) -> bool:
        """Whether a transfer between stages could take longer than a stage, and so make later micro-batches wait."""
        if in_turn(self.problem.instance):
            return False
        least, more = self.outside("hop")
        most = least + sum(amount for *_, amount in more)
        return self.problem.instance.task.parts * most > stage_ticks(self.problem, self.shortest)

    @cached_property
    def fixed(self) -> int | None:
        """Picoseconds that any mapping's batch takes beside its layers (T5, T6, T8); None where mappings differ."""
        if self.stages:
            return 0
        hop, after, summed = (self.outside(field) for field in BESIDE)
        if hop[1] or after[1] or summed[1] or self.slower or self.exchanges.handed:
            return None
        transfers = waited_hops(self.problem.instance, self.problem.degrees) * hop[0]
        transfers += self.problem.ends_after - self.problem.filled + self.problem.passes
        return transfers + after[0] + batch_time.exposed_ticks(self.problem, summed[0])

    def decisions(self, solution: DataflowSolution) -> tuple[list[int], list[int], list[tuple[int, int]]] | None:
        """The slot of each copy in a mapping, its partitions numbered afresh within each phase, and its option; where
        tiles are shared also its :meth:`places`.

        None where the models can't hold it: other degrees, schemes, partitions or another plan of the batch, or what
        numbering would hide.
        """
        partitions, schemes = solution.partitions, solution.schemes
        plans = zip(solution.plan._replace(keep=solution.keep or "none"), self.problem.instance.task.plan, strict=True)
        other = solution.degrees != self.problem.degrees or {len(partitions), len(schemes)} != {len(self.kernel)}
        if other or any(stated not in (None, own or "none") for stated, own in plans):
            return None
        picked = [_position(scheme, self.options(i)) for i, scheme in enumerate(schemes)]
        used = {phase: sorted({partitions[i] for i in self.inside(phase.start)}) for phase in self.phases}
        mixed = len(set().union(*used.values())) < sum(map(len, used.values()))
        back = [t for t in self.tensors if partitions[t.u] > partitions[t.v]]
        hidden = bool(self.place) or any(self.slots[t.u] != self.slots[t.v] for t in back)
        options = [one for one in picked if one is not None]
        if len(options) < len(picked) or mixed or (back and hidden):
            return None
        where = self._numbered(solution, used)
        places = self.places(where, options) if where is not None and self.problem.shares else []
        return None if where is None or places is None else (where, options, places)

    def _numbered(self, solution: DataflowSolution, used: Mapping[range, list[int]]) -> list[int] | None:
        """The slot of each copy; ``used`` are the partitions of each phase."""
        partitions = solution.partitions
        if self.place and len(set(partitions)) < len(partitions):
            return None
        if self.stages:
            return slots_in_stages(partitions, solution.stages, self.stages, self.place)
        return list(self.place) if self.place else slots_in_phases(partitions, self.slots, used)

    def given(self, solution: DataflowSolution) -> tuple[list[int], list[int]]:
        """The options of all copies in a mapping, and their stages (none where stages are layers).

        Raises :class:`InputError` for a mapping of other kernels or with schemes that aren't allowed.
        """
        schemes = solution.schemes
        refuse_another(solution, len(self.kernel))
        picked = [_position(scheme, self.options(i)) for i, scheme in enumerate(schemes)]
        if None in picked:
            what = f"the given mapping shards a kernel by {schemes[picked.index(None)]}, which isn't allowed"
            raise InputError(what, "given", "Give a mapping of this instance.")
        stages = stages_of(solution.partitions, solution.stages) if self.stages else []
        return [one for one in picked if one is not None], stages

    def places(self, where: Sequence[int], picked: Sequence[int]) -> list[tuple[int, int]] | None:
        """(list, share) of each copy in ``shares`` at the least time of each slot; None: more copies than tiles."""
        listed, total = self.problem.shares, self.problem.instance.system.chip.tiles
        found = [(0, 0)] * len(where)
        for c in set(where):
            inside = [i for i, slot in enumerate(where) if slot == c]
            shared = sharing([listed[self.kernel[i]][picked[i]] for i in inside], total)
            if shared is None:
                return None
            for i, tiles in zip(inside, shared.tiles, strict=True):
                each = enumerate(self.shares(i))
                g, points = next((g, points) for g, (options, points) in each if picked[i] in options)
                found[i] = (g, next(p for p, (size, _) in enumerate(points) if size == tiles))
        return found

    def solution(self, where: Sequence[int], chosen: Mapping[tuple[int, int], float]) -> DataflowSolution:
        """The mapping with copies in these slots; ``chosen`` are the values of [copy i has its option o]."""
        picked = [0] * len(self.copies)
        for (i, o), value in chosen.items():
            picked[i] = o if value > 0.5 else picked[i]
        numbers = {c: number for number, c in enumerate(sorted(set(where)))}
        stages = tuple(next(s for s, slots in enumerate(self.stages) if c in slots) for c in numbers if self.stages)
        schemes = (self.options(i)[o].scheme for i, o in enumerate(picked))
        return self.problem.mapping(schemes, [numbers[c] for c in where], stages)


def _position(scheme: str, options: Sequence[Option]) -> int | None:
    return next((number for number, option in enumerate(options) if option.scheme == scheme), None)


def tables(problem: DataflowProblem, *, roomy: bool = False, given: DataflowSolution | None = None) -> Tables:
    """The copies, slots and tensors of ``problem``; ``roomy``: slots and places say nothing of C4. The stages of a
    ``given`` mapping leave each copy the slots of its own.

    Raises :class:`InputError` for more than ``LARGEST_MODEL`` pairs of a copy and a slot.
    """
    instance, n, layers = problem.instance, problem.n, problem.instance.mapped_layers
    wired = wires(problem, layers)
    level = levels(n * layers, np.array(wired, dtype=np.int64).reshape(-1, 2)).tolist()
    stages = stage_slots(problem, n * layers, fused(instance), roomy) if instance.task.stages == "kernels" else ()
    slots = (range(stages[-1].stop),) * (n * layers) if stages else phase_slots(problem, layers, roomy)
    if given is not None and stages and fused(instance) and not (roomy or instance.task.exactly):
        stages, slots = given_slots(problem, n * layers, given)
    refuse_too_large(slots, max(1, len(stages)))
    payers, cells = marked_cells(problem)
    tensors = tuple(tensor_of(problem, u, v, level[v] - level[u] + 1, cells.get((u, v))) for u, v in wired)
    return Tables(
        problem=problem,
        kernel=tuple(i % n for i in range(n * layers)),
        tensors=tensors,
        slots=slots,
        place=set_places(problem, slots, level, roomy),
        stages=stages,
        handovers=tuple(tensor_of(problem, u, v, 0) for u, v in handovers(problem)),
        exchanges=exchanges(problem, payers, tensors, [each.start for each in slots]),
    )
