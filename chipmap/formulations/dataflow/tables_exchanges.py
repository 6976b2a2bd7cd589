"""What kernels exchange as it depends on others, as both models of family ``dataflow`` see it: who may have paid for a
layout, sums that are shared, parameters that rest elsewhere.

The rules are those of ``docs/families/dataflow-exchanges.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from chipmap.formulations.dataflow.tables_slots import fused
from chipmap.formulations.dataflow.tables_tensors import Cell, Mark, Tensor, own_cells, tensor_of
from chipmap.instances.dataflow.added import Added
from chipmap.instances.dataflow.alike import Alike
from chipmap.instances.dataflow.batch import in_flight, layers_per_stage
from chipmap.instances.dataflow.present import Copy, Shared
from chipmap.instances.dataflow.problem import DataflowProblem

#: (maker's copy, reader's copy) of a tensor.
Pair = tuple[int, int]


class Payers(NamedTuple):
    """Copies in a row, and the options with which each pays for a change of layout that those after it then have for
    nothing; ``near``: only those in the same slot."""

    copies: tuple[int, ...]
    options: tuple[Alike, ...]
    near: bool


class Sums(NamedTuple):
    """Products of several copies whose sums over chips are made where the last of them runs: the ``members`` that may
    be last; for each kind of sum its picoseconds, and the options of copies that ask for it."""

    members: tuple[int, ...]
    kinds: tuple[tuple[int, tuple[tuple[int, Alike], ...]], ...]


class Chain(NamedTuple):
    """A tensor whose readers, the tensors ``edges`` in the order of their places, keep what others pay for.

    ``copies`` are its layouts and ``covers`` [layouts, layouts] says which has another in it. ``forward`` of the
    readers come before the backward phase.
    """

    edges: tuple[int, ...]
    copies: tuple[Copy, ...]
    covers: np.ndarray
    forward: int

    def needs(self, tensors: Sequence[Tensor], i: int, supplied: bool = False) -> list[int]:
        """The layouts that reader i may pay for, or have; those only that it may then have for others."""
        cells = (cell for row in tensors[self.edges[i]].cells for cell in row if cell.supplies or not supplied)
        return sorted({cell.mark for cell in cells if isinstance(cell.mark, int)})

    def suppliers(self, tensors: Sequence[Tensor], i: int, need: int) -> list[int]:
        """The layouts for which readers before reader i may pay that have the one that it needs."""
        paid = {layout for before in range(i) for layout in self.needs(tensors, before, supplied=True)}
        return [layout for layout in sorted(paid) if self.covers[layout, need]]


@dataclass(frozen=True)
class Exchanges:
    """Of a problem's tensors: ``payers`` of changes of layout and the ``chains`` of readers that keep them, ``sums``
    that are shared; ``uses`` of parameters each time that backward kernels run, and gradients of them that are
    ``handed`` over once per batch. A layout that a forward kernel pays for and the backward phase reads ``rests`` in
    DRAM so many times.
    """

    payers: tuple[Payers, ...] = ()
    chains: tuple[Chain, ...] = ()
    sums: tuple[Sums, ...] = ()
    uses: tuple[Tensor, ...] = ()
    handed: tuple[Tensor, ...] = ()
    rests: Fraction = Fraction(1)

    @property
    def longest(self) -> int:
        """No mapping's layer takes more picoseconds for sums, and to move what is kept."""
        moved = sum(2 * len(one.edges) * max(copy.dram for copy in one.copies) for one in self.chains)
        return moved + sum(price for one in self.sums for price, _ in one.kinds)


def marked_cells(problem: DataflowProblem) -> tuple[tuple[Payers, ...], dict[Pair, list[list[Cell]]]]:
    """The cells of all tensors for which someone else may pay, of all copies, and those who may."""
    payers: list[Payers] = []
    cells: dict[Pair, list[list[Cell]]] = {}
    keep = problem.instance.task.keep or "none"
    for k in range(0, problem.n * problem.instance.mapped_layers, problem.n):
        for added in problem.added:
            cells |= _alike(problem, added, k, payers)
        for shared in problem.shared:
            if keep != "none":
                cells |= _needing(problem, shared)
            elif fused(problem.instance):
                cells |= _together(problem, shared, k, payers)
    return tuple(payers), cells


def least_changes(problem: DataflowProblem) -> dict[Pair, np.ndarray]:
    """Of a layer's tensors for whose changes of layout someone else may pay: the picoseconds [maker's option][reader's
    option] that a reader pays in any mapping, the least of all layers."""
    found: dict[Pair, np.ndarray] = {}
    first = {(shared.maker, _in_order(problem, shared, 0)[0][0]) for shared in problem.shared}
    for (u, v), cells in marked_cells(problem)[1].items():
        pair = u % problem.n, v % problem.n
        own = [[(isinstance(cell.mark, int) and pair in first) or cell.mark is None for cell in row] for row in cells]
        least = np.where(own, [[cell.price for cell in row] for row in cells], 0)
        found[pair] = np.minimum(least, found.get(pair, least))
    return found


def _alike(problem: DataflowProblem, added: Added, k: int, payers: list[Payers]) -> dict[Pair, list[list[Cell]]]:
    """Products that lie alike are changed once: the first that is listed pays."""
    numbers: dict[int, int] = {}
    found: dict[Pair, list[list[Cell]]] = {}
    copies = tuple(k + u for u in added.members)
    for position, u in enumerate(added.members):
        cells = own_cells(problem, u, added.adder)
        for row, layout in zip(cells, added.layouts[position].tolist(), strict=True):
            before = [np.flatnonzero(own == layout) for own in added.layouts[:position]]
            if any(len(own) == len(problem.options[r]) for own, r in zip(before, added.members, strict=False)):
                row[:] = [cell._replace(price=0) for cell in row]
            elif any(map(len, before)):
                if layout not in numbers:
                    numbers[layout] = len(payers)
                    options = (tuple(np.flatnonzero(own == layout).tolist()) for own in added.layouts)
                    payers.append(Payers(copies, tuple(options), near=False))
                row[:] = [_by(cell, numbers[layout], position) for cell in row]
        found[k + u, k + added.adder] = cells
    return found


def _together(problem: DataflowProblem, shared: Shared, k: int, payers: list[Payers]) -> dict[Pair, list[list[Cell]]]:
    """Readers in one partition: who runs after another one whose layout covers its own pays nothing."""
    readers, needs, supplies = _in_order(problem, shared, k)
    pays = [
        own & np.array([[cell.price > 0 for cell in row] for row in own_cells(problem, shared.maker, v)])
        for v, own in zip(readers, supplies, strict=True)
    ]
    numbers: dict[tuple[Alike, ...], int] = {}
    found: dict[Pair, list[list[Cell]]] = {}
    known: dict[Pair, tuple[Alike, ...]] = {}
    phase = [kernel.phase for kernel in problem.instance.workload.kernels]
    for position, v in enumerate(readers):
        cells = found[k + shared.maker, k + v] = own_cells(problem, shared.maker, v)
        for a, row in enumerate(cells):
            for b, cell in enumerate(row):
                need = int(needs[position][b])
                if (a, need) not in known:
                    each = (shared.covers[own, need] & some[a] for own, some in zip(needs, pays, strict=True))
                    known[a, need] = tuple(tuple(np.flatnonzero(one).tolist()) for one in each)
                options = known[a, need]
                if any(one and phase[r] == phase[v] for r, one in zip(readers[:position], options, strict=False)):
                    if options not in numbers:
                        numbers[options] = len(payers)
                        payers.append(Payers(tuple(k + r for r in readers), options, near=True))
                    row[b] = _by(cell, numbers[options], position)
    return found


def _needing(problem: DataflowProblem, shared: Shared) -> dict[Pair, list[list[Cell]]]:
    """Readers that keep what they paid for: each cell that is paid for says which layout it needs."""
    found = {}
    for v, own, supplies in zip(shared.readers, shared.needs, shared.supplies, strict=True):
        cells = own_cells(problem, shared.maker, v)
        for row, some in zip(cells, supplies.tolist(), strict=True):
            marked = (
                cell._replace(mark=int(need), supplies=one) for cell, need, one in zip(row, own, some, strict=True)
            )
            row[:] = [cell if cell.price else Cell(0) for cell in marked]
        found[shared.maker, v] = cells
    return found


def _by(cell: Cell, payers: int, position: int) -> Cell:
    return cell._replace(mark=Mark(payers, position)) if cell.price else cell


def _in_order(problem: DataflowProblem, shared: Shared, k: int) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
    """The readers of a tensor of the layer that begins with copy k, by their places, what they need and whether they
    supply it."""
    triples = sorted(
        zip(shared.readers, shared.needs, shared.supplies, strict=True), key=lambda one: problem.places[k + one[0]]
    )
    readers, needs, supplies = zip(*triples, strict=True)
    return list(readers), list(needs), list(supplies)


def exchanges(
    problem: DataflowProblem, payers: tuple[Payers, ...], tensors: Sequence[Tensor], phases: Sequence[int]
) -> Exchanges:
    """What copies exchange beside the changes of layout of ``tensors``; ``phases`` [copies]: the first slot of each."""
    kernels, uses = range(0, len(phases), problem.n), problem.uses
    chains = _chains(problem, tensors) if (problem.instance.task.keep or "none") != "none" else ()
    return Exchanges(
        payers=payers,
        chains=tuple(chains),
        sums=tuple(one for k in kernels for added in problem.added for one in _sums(problem, added, k, phases)),
        uses=tuple(
            _matrix(problem, (k + use.owner, k + use.user), use.network, use.held)
            for k in kernels
            for use in uses
            if use.network.any() or use.held.any()
        ),
        handed=tuple(
            _matrix(problem, (k + use.owner, k + use.user), use.after)
            for k in kernels
            for use in uses
            if use.after.any()
        ),
        rests=layers_per_stage(problem.instance, problem.degrees) * in_flight(problem.instance, problem.degrees),
    )


def _matrix(problem: DataflowProblem, ends: Pair, price: np.ndarray, held: np.ndarray | None = None) -> Tensor:
    held = np.zeros_like(price) if held is None else held
    cells = [
        [Cell(*cell) for cell in zip(*rows, strict=True)] for rows in zip(price.tolist(), held.tolist(), strict=True)
    ]
    return tensor_of(problem, *ends, 0, cells)


def _sums(problem: DataflowProblem, added: Added, k: int, phases: Sequence[int]) -> Iterator[Sums]:
    """The sums of one layer's products; none where no member's scheme asks for any. Where kernels don't fuse the last
    member is that with the last place."""
    members = [k + u for u in added.members]
    last = max(phases[i] for i in members)
    kinds = []
    for number, price in enumerate(added.ticks):
        asked = [tuple(np.flatnonzero(own == number).tolist()) for own in added.sums]
        if price and any(asked):
            kinds.append((price, tuple((i, options) for i, options in zip(members, asked, strict=True) if options)))
    if kinds:
        ends = [i for i in members if phases[i] == last]
        yield Sums(
            tuple(ends if fused(problem.instance) else [max(ends, key=problem.places.__getitem__)]), tuple(kinds)
        )


def _chains(problem: DataflowProblem, tensors: Sequence[Tensor]) -> Iterator[Chain]:
    """The readers of each tensor within reach of each other, where a later one may have what an earlier one needs."""
    number = {(t.u, t.v): e for e, t in enumerate(tensors)}
    backward = [kernel.phase == "backward" for kernel in problem.instance.workload.kernels]
    for shared in problem.shared:
        readers, *_ = _in_order(problem, shared, 0)
        parts = [[v for v in readers if backward[v] == phase] for phase in (False, True)]
        for part in parts if problem.instance.task.keep == "phase" else [readers]:
            edges = tuple(number[shared.maker, v] for v in part)
            chain = Chain(edges, shared.copies, shared.covers, sum(not backward[v] for v in part))
            if any(chain.suppliers(tensors, i, need) for i in range(len(edges)) for need in chain.needs(tensors, i)):
                yield chain
