"""Tensors as both models of family ``dataflow`` see them: what their ends' options are alike in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chipmap.instances.dataflow.alike import Alike, alike
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem


class Mark(NamedTuple):
    """Who may have paid for a change of layout before its reader: those of a list of payers before a ``position``."""

    payers: int
    position: int


class Cell(NamedTuple):
    """A tensor under a scheme of its maker and one of its reader: the reader's ``price`` in picoseconds, bytes of
    parameters that it has ``held`` beside those at rest, and who may have paid: a :class:`Mark`, or the number of the
    layout that it needs where readers keep tensors (None: nobody); then whether it ``supplies`` others if it pays."""

    price: int
    held: int = 0
    mark: Mark | int | None = None
    supplies: bool = True


#: The cells of a tensor [its maker's option][its reader's option].
Cells = Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Tensor:
    """A tensor from copy ``u`` to copy ``v``; on chip it takes ``waits`` buffers (0: never, it is a hand-over, or
    parameters).

    ``made`` and ``taken`` part the options of u and v by their ``cells`` [made][taken], ``made`` also as ``stored`` of
    u does (where it waits); ``converts`` [made][taken] are the picoseconds of the change.
    """

    u: int
    v: int
    waits: int
    made: tuple[Alike, ...]
    taken: tuple[Alike, ...]
    cells: tuple[tuple[Cell, ...], ...]
    converts: tuple[tuple[int, ...], ...]


def stored_as(option: Option) -> tuple[int, ...]:
    """What a model asks of an option's output: DRAM time, buffer, bytes in DRAM, transfer to the next stage."""
    return option.dram, option.buffer, option.waits, option.link


def tensor_of(problem: DataflowProblem, u: int, v: int, waits: int, cells: Cells | None = None) -> Tensor:
    """The tensor from copy u to copy v, with these ``cells`` (None: changes of layout that v pays itself)."""
    a, b = u % problem.n, v % problem.n
    if cells is None:
        cells = own_cells(problem, a, b)
    keys = [stored_as(option) if waits else () for option in problem.options[a]]
    made = alike([(*key, *row) for key, row in zip(keys, cells, strict=True)])
    taken = alike(list(zip(*cells, strict=True)))
    parts = tuple(tuple(cells[g[0]][h[0]] for h in taken) for g in made)
    return Tensor(u, v, waits, made, taken, parts, tuple(tuple(cell.price for cell in row) for row in parts))


def own_cells(problem: DataflowProblem, u: int, v: int) -> list[list[Cell]]:
    """The cells of a tensor from kernel u to kernel v whose changes v pays itself."""
    taken = range(len(problem.options[v]))
    return [[Cell(problem.converts(u, v, s, t)) for t in taken] for s in range(len(problem.options[u]))]
