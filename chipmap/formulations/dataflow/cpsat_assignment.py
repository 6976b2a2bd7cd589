"""Schemes and partitions for CP-SAT, as literals: C0, C1, C3, C4, C5 and the matrix A."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from chipmap.formulations.cpsat import LabelledModel, Literal
from chipmap.formulations.dataflow.tables import Tables
from chipmap.formulations.dataflow.tables_pins import apart, numbered, ruled
from chipmap.formulations.dataflow.tables_slots import fused
from chipmap.instances.dataflow import DataflowSolution
from chipmap.instances.dataflow.alike import Alike

#: (amount, literal) pairs.
Parts = list[tuple[int, Literal]]


class Builder(LabelledModel):
    """A ``CpModel`` that is being stated.

    ``A[i, c]`` = [copy i lies in partition c]; ``y[i, c]`` = [it lies in one <= c]; ``s[i, o]`` = [copy i is sharded
    as in its option o]; ``placed[i, o, c]`` both at once (none of the last two for a copy without a choice).
    """

    def __init__(self, model: cp_model.CpModel, tables: Tables, prefix: str, assume: bool) -> None:
        super().__init__(model, prefix, assume)
        self.tables = tables
        self.used: dict[int, Literal] = {}
        self.own: dict[int, Literal] = {}
        self.twice: dict[int, Literal] = {}
        cells = [(i, c) for i in tables.copies for c in tables.slots[i]]
        place = tables.place if tables.fixed_places else ()
        self.A = {(i, c): self.literal(f"A[{i},{c}]", self._known(i, c)) for i, c in cells}
        last = {i: slots.stop - 1 for i, slots in enumerate(tables.slots)}
        self.y = {
            (i, c): self.literal(f"y[{i},{c}]", int(place[i] <= c) if place else 1 if c == last[i] else None)
            for i, c in cells
        }
        self.s = {(i, o): self.literal(f"s[{i},{o}]") for i in tables.several for o in range(len(tables.options(i)))}
        self.placed = {(i, o, c): self.literal(f"placed[{i},{o},{c}]") for i, o in self.s for c in tables.slots[i]}

    def _known(self, i: int, c: int) -> int | None:
        """The value of A[i, c] where the places of copies say it."""
        return 0 if self.tables.shut(i, c) else 1 if self.tables.fixed_places else None

    def upto(self, i: int, c: int) -> Literal:
        """y[i, c] for any c."""
        slots = self.tables.slots[i]
        return self.y[i, c] if c in slots else self.model.new_constant(int(c >= slots.stop))

    def lies(self, i: int, options: Alike, c: int) -> list[Literal]:
        """Literals of which one holds where copy i lies in c, sharded as in one of ``options``."""
        if len(options) == len(self.tables.options(i)):
            return [self.A[i, c]]
        return [self.placed[i, o, c] for o in options]


def total(parts: Parts) -> Any:
    """Σ amount · literal."""
    return cp_model.LinearExpr.weighted_sum([literal for _, literal in parts], [amount for amount, _ in parts])


def def_upto(builder: Builder) -> None:
    """y[i, c] = A[i, first] ∨ … ∨ A[i, c], and exactly one A[i, c]: C3 by domain, as slots belong to a phase."""
    for i, slots in enumerate(builder.tables.slots):
        builder.model.add_exactly_one([builder.A[i, c] for c in slots])
        for c in slots:
            builder.model.add_implication(builder.A[i, c], builder.y[i, c])
            if c == slots.start:
                builder.model.add_implication(builder.y[i, c], builder.A[i, c])
                continue
            before = builder.y[i, c - 1]
            builder.model.add_implication(before, builder.y[i, c])
            builder.model.add_implication(before, ~builder.A[i, c])
            builder.clause("def_upto", [before, ~builder.y[i, c], builder.A[i, c]])


def c0_domain_degrees(builder: Builder, fit: bool) -> None:
    """C0: degrees that divide layers and batch; a contradiction where none ``fit``."""
    if not fit:
        builder.clause("c0_domain_degrees", [])


def c0_domain_schemes(builder: Builder) -> None:
    """C0: one scheme of each copy; ``placed[i, o, c]`` = s[i, o] ∧ A[i, c], one of them for each copy i."""
    tables = builder.tables
    for i in tables.several:
        numbers = range(len(tables.options(i)))
        builder.model.add_exactly_one([builder.s[i, o] for o in numbers])
        builder.model.add_exactly_one([builder.placed[i, o, c] for o in numbers for c in tables.slots[i]])
        for o in numbers:
            for c in tables.slots[i]:
                builder.model.add_implication(builder.placed[i, o, c], builder.s[i, o])
                builder.model.add_implication(builder.placed[i, o, c], builder.A[i, c])


def c1_order(builder: Builder) -> None:
    """C1: y[v, c] -> y[u, c] on every tensor from u to v; forward partitions run before backward ones."""
    tables = builder.tables
    for t in tables.tensors:
        if tables.slots[t.u] == tables.slots[t.v]:
            for c in tables.slots[t.u][:-1]:
                builder.clause("c1_order", [~builder.y[t.v, c], builder.y[t.u, c]])
        elif tables.slots[t.u].start > tables.slots[t.v].start:
            builder.clause("c1_order", [])


def c3_phases(builder: Builder) -> None:
    """C3: ``own[i]`` = [copy i lies in a slot of its phase]: by domain, a row for copies pinned to the other phase.

    ``twice[c]`` = [the copies in c run twice]: no slot has both some that do and some that don't.
    """
    for c in builder.tables.split:
        builder.twice[c] = builder.literal(f"twice[{c}]")
        for i in builder.tables.inside(c):
            kind = builder.twice[c] if builder.tables.often[i] > 1 else ~builder.twice[c]
            builder.clause("c3_phases", [~builder.A[i, c], kind])
    for i in sorted(builder.tables.strays):
        builder.own[i] = builder.literal(f"own[{i}]")
        builder.clause("c3_phases", [builder.own[i]])


def c4_partitions(builder: Builder, order: str) -> None:
    """C4: no more partitions than slots, by domain (``assume``: by clauses); ``exactly``: none of them is empty.

    ``used[c]``: partition c has kernels, and then c - 1 has some; whoever isn't before c finds it in use. Numbering
    without a gap loses nothing.
    """
    tables, task = builder.tables, builder.tables.problem.instance.task
    inside = {c: [builder.A[i, c] for i in tables.inside(c)] for c in range(tables.count)}
    together = fused(tables.problem.instance)
    for phase in tables.blocks:
        allowed = phase if task.partitions is None or not together else phase[: task.partitions]
        for c in allowed if tables.exactly else ():
            builder.clause("c4_partitions", inside[c])
        if builder.assume:
            for i in tables.inside(phase.start) if len(allowed) < len(phase) else ():
                builder.clause("c4_partitions", [~builder.y[i, phase[-1]], builder.y[i, allowed[-1]]])
        for c in phase if not together and not tables.place else ():
            builder.enforce("c4_partitions", builder.model.add(sum(inside[c]) <= 1))
    if tables.place or (tables.exactly and not builder.assume):
        return
    if order == "prefix" or tables.spares or tables.caching or numbered(tables):
        (_sym_stages if tables.stages else _sym_prefix)(builder, inside)


def _sym_prefix(builder: Builder, inside: dict[int, list[Literal]]) -> None:
    """Without C1 in force (``assume``), every copy speaks for itself; else those that nobody of their phase reads."""
    tables = builder.tables
    for phase in tables.phases:
        if numbered(tables):
            builder.clause("def_used", inside[phase.start])
        for c in phase[1:]:
            used = builder.used[c] = builder.literal(f"used[{c}]")
            builder.clause("def_used", [~used, *inside[c]])
            if c - 1 in builder.used:
                builder.clause("def_used", [~used, builder.used[c - 1]])
            for i in tables.copies if builder.assume else tables.last:
                if c in tables.slots[i]:
                    builder.clause("def_used", [builder.y[i, c - 1], used])


def _sym_stages(builder: Builder, inside: dict[int, list[Literal]]) -> None:
    """A copy in partition c finds it in use, and those before it in its stage; empty stages come last."""
    tables, starts = builder.tables, [slots.start for slots in builder.tables.stages]
    builder.clause("def_used", inside[0])
    for c in range(1, tables.count):
        used = builder.used[c] = builder.literal(f"used[{c}]")
        builder.clause("def_used", [~used, *inside[c]])
        before = starts[starts.index(c) - 1] if c in starts else c - 1
        if before:
            builder.clause("def_used", [~used, builder.used[before]])
        for literal in inside[c]:
            builder.clause("def_used", [~literal, used])


def def_several(builder: Builder, b: int) -> Literal | None:
    """[block b of slots has more than one partition]; None: never."""
    tables, slots = builder.tables, builder.tables.blocks[b]
    if len(slots) == 1:
        return None
    if slots[1] in builder.used:
        return builder.used[slots[1]]
    several = builder.literal(f"several[{b}]", None if tables.place and not tables.fixed_places else 1)
    if not tables.fixed_places and tables.place:
        kernels = [builder.A[i, c] for c in slots for i in tables.inside(c)]
        builder.model.add(sum(kernels) <= 1).only_enforce_if(~several)
    return several


def c5_together(builder: Builder) -> None:
    """C5: a group's copies have the same partition, which holds no copy of another group."""
    tables = builder.tables
    for group in tables.groups:
        first = group[0]
        for i in group[1:]:
            if i in tables.strays:
                builder.clause("c5_together", [~builder.own[i]])
                continue
            for c in tables.slots[i]:
                builder.clause("c5_together", [~builder.A[i, c], builder.A[first, c]])
    for c in range(tables.count):
        leaders = [builder.A[i, c] for i in tables.leaders(c)]
        if len(leaders) > 1:
            builder.enforce("c5_together", builder.model.add(sum(leaders) <= 1))


def c5_together_apart(builder: Builder) -> None:
    """C5: a partition holds at most one kernel of a group that lies apart."""
    for group in apart(builder.tables):
        for c in range(builder.tables.count):
            inside = [builder.A[i, c] for i in group if (i, c) in builder.A]
            if len(inside) > 1:
                builder.enforce("c5_together_apart", builder.model.add(sum(inside) <= 1))


def c5_together_pins(builder: Builder) -> None:
    """C5: no copy lies in a partition whose index is ruled out; the index of slot c is the number of slots in use
    before it."""
    label, model = "c5_together_pins", builder.model
    for one in ruled(builder.tables, builder.assume):
        here = builder.A[one.copy, one.slot]
        if one.place is not None:
            if one.out:
                builder.clause(label, [~here])
            continue
        index = sum(builder.used[c] if c else 1 for c in range(one.slot))
        under = [here, *builder.assumption(label)]
        for k in one.barred:
            model.add(index != k).only_enforce_if(under)
        if one.largest is not None:
            model.add(index <= one.largest).only_enforce_if(under)


def def_given(builder: Builder, given: DataflowSolution) -> None:
    """The schemes of a ``given`` mapping, and where stages share out kernels its stages."""
    tables = builder.tables
    options, stages = tables.given(given)
    for i in tables.several:
        builder.clause("def_given", [builder.s[i, options[i]]])
    for i, stage in enumerate(stages):
        builder.clause("def_given", [builder.A[i, c] for c in tables.stages[stage]])
