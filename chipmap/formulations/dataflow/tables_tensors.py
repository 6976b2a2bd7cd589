"""Tensors as both models of family ``dataflow`` see them: what their ends' options are alike in."""

from __future__ import annotations

from dataclasses import dataclass

from chipmap.instances.dataflow.alike import Alike, layout_changes
from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem


@dataclass(frozen=True)
class Tensor:
    """A tensor from copy ``u`` to copy ``v``; on chip it takes ``waits`` buffers (0: never, it is a hand-over).

    ``made`` and ``taken`` part the options of u and v by what a change of layout costs, ``made`` also as ``stored`` of
    u does (unless it is a hand-over); ``converts`` [made][taken] are the picoseconds of the change.
    """

    u: int
    v: int
    waits: int
    made: tuple[Alike, ...]
    taken: tuple[Alike, ...]
    converts: tuple[tuple[int, ...], ...]


def stored_as(option: Option) -> tuple[int, ...]:
    """What a model asks of an option's output: DRAM time, buffer, bytes in DRAM, transfer to the next stage."""
    return option.dram, option.buffer, option.waits, option.link


def tensor_of(problem: DataflowProblem, u: int, v: int, waits: int) -> Tensor:
    """The tensor from copy u to copy v."""
    a, b = u % problem.n, v % problem.n
    keys = [stored_as(option) if waits else () for option in problem.options[a]]
    return Tensor(u, v, waits, *layout_changes(problem, a, b, keys))
