"""Tensors as both models of family ``dataflow`` see them: what their ends' options are alike in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from chipmap.instances.dataflow.problem import DataflowProblem, Option

#: Numbers of a kernel's options that are alike in what a model asks of them.
Alike = tuple[int, ...]


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


def alike(keys: Sequence[Hashable]) -> tuple[Alike, ...]:
    """The positions of equal keys, together."""
    found: dict[Hashable, list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return tuple(tuple(one) for one in found.values())


def stored_as(option: Option) -> tuple[int, ...]:
    """What a model asks of an option's output: DRAM time, buffer, bytes in DRAM, transfer to the next stage."""
    return option.dram, option.buffer, option.waits, option.link


def tensor_of(problem: DataflowProblem, u: int, v: int, waits: int) -> Tensor:
    """The tensor from copy u to copy v."""
    a, b = u % problem.n, v % problem.n
    producers, consumers = problem.options[a], problem.options[b]
    change = [[problem.converts(a, b, s, t) for t in range(len(consumers))] for s in range(len(producers))]
    made = alike([(*(stored_as(o) if waits else ()), *row) for o, row in zip(producers, change, strict=True)])
    taken = alike(list(zip(*change, strict=True)))
    converts = tuple(tuple(change[g[0]][h[0]] for h in taken) for g in made)
    return Tensor(u, v, waits, made, taken, converts)
