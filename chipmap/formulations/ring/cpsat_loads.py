"""What chips and links carry, for CP-SAT: C4, T1 and T2."""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from chipmap.formulations.ring.cpsat_assignment import Builder, no
from chipmap.instances.ring.precedence import last_readers

#: (amount, literal) pairs.
Parts = list[tuple[int, Any]]


class Moves:
    """Literals of moving storages, made when they are first asked for."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._link: dict[tuple[int, int], Any] = {}
        self._cross: dict[tuple[int, int], Any] = {}

    def link(self, t: int, c: int) -> Any:
        """True if storage t crosses link c -> c + 1: f(u) <= c < f(v) for producer u and some reader v."""
        if (t, c) not in self._link:
            b, storage = self.builder, self.builder.problem.storages[t]
            u = storage.producer
            readers = [v for v in last_readers(b.problem, storage.readers) if b.upto(v, c) is not True]
            known = b.upto(u, c) is False or not readers
            literal = self._link[t, c] = False if known else b.literal(f"link[{t},{c}]")
            for v in readers if not known else ():
                b.clause("def_link", [no(b.upto(u, c)), b.upto(v, c), literal])
        return self._link[t, c]

    def cross(self, t: int, c: int) -> Any:
        """True if storage t crosses the boundary of chip c: on[u, c] ≠ on[v, c] for producer u and some reader v."""
        if (t, c) not in self._cross:
            b, storage = self.builder, self.builder.problem.storages[t]
            u = storage.producer
            known = not any(c in b.domain[v] for v in (u, *storage.readers))
            literal = self._cross[t, c] = False if known else b.literal(f"cross[{t},{c}]")
            for v in storage.readers if not known else ():
                b.clause("def_cross", [no(b.on(u, c)), b.on(v, c), literal])
                b.clause("def_cross", [b.on(u, c), no(b.on(v, c)), literal])
        return self._cross[t, c]


def c4_memory(builder: Builder, moves: Moves) -> list[Any]:
    """C4: weights on c + 2 · (bytes of the storages that cross its boundary) <= S; the left sides in bytes, by chip."""
    problem = builder.problem
    sums = []
    for c in range(problem.chips):
        parts = on_chip(builder, problem.weight_bytes, c)
        parts += [(2 * s.bytes, moves.cross(t, c)) for t, s in enumerate(problem.storages) if s.bytes]
        sums.append(at_most(builder, "c4_memory", parts, problem.sram_bytes))
    return sums


def t1_chip(builder: Builder, moves: Moves, period: Any) -> list[Any]:
    """T1 <= period: each chip's work, and in modes ``sum`` and ``sum_forward`` the transfers that it pays."""
    problem = builder.problem
    paid = [(t, storage.ticks) for t, storage in enumerate(problem.storages) if storage.ticks]
    sums = []
    for c in range(problem.chips):
        parts = on_chip(builder, problem.ticks, c)
        if problem.cost_mode == "sum":
            parts += [(ticks, moves.cross(t, c)) for t, ticks in paid]
        if problem.cost_mode == "sum_forward":
            ends = [link for link in (c - 1, c) if 0 <= link < problem.chips - 1]
            parts += [(ticks, moves.link(t, end)) for t, ticks in paid for end in ends]
        sums.append(at_most(builder, "t1_chip", parts, period))
    return sums


def t2_link(builder: Builder, moves: Moves, period: Any) -> list[Any]:
    """T2 <= period: the load of each link in mode ``period``; T2 = 0 in the others."""
    problem = builder.problem
    if problem.cost_mode != "period":
        return []
    paid = [(t, storage.ticks) for t, storage in enumerate(problem.storages) if storage.ticks]
    return [
        at_most(builder, "t2_link", [(ticks, moves.link(t, c)) for t, ticks in paid], period)
        for c in range(problem.chips - 1)
    ]


def on_chip(builder: Builder, amounts: Any, c: int) -> Parts:
    """(amount of v, [f(v) = c]) for the operations that can be on c."""
    return [(int(amounts[v]), builder.on(v, c)) for v in np.flatnonzero(amounts).tolist() if c in builder.domain[v]]


def at_most(builder: Builder, label: str, parts: Parts, limit: Any) -> Any:
    """Σ amount · literal <= limit, with literals that are already known folded in; the sum."""
    constant = sum(amount for amount, literal in parts if literal is True)
    unknown = [(amount, literal) for amount, literal in parts if not isinstance(literal, bool)]
    literals, amounts = [literal for _, literal in unknown], [amount for amount, _ in unknown]
    total = cp_model.LinearExpr.weighted_sum(literals, amounts) + constant
    if unknown or not isinstance(limit, int):
        builder.enforce(label, builder.model.add(total <= limit))
    elif constant > limit:
        builder.clause(label, [])
    return total
