"""What chips and links carry, for CP-SAT: C4, T1 and T2."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from chipmap.formulations.cpsat import no
from chipmap.formulations.ring.cpsat_assignment import Builder
from chipmap.instances.ring.precedence import last_readers, steps_alive

#: (amount, literal) pairs.
Parts = list[tuple[int, Any]]


class Moves:
    """Literals of moving storages, made when they are first asked for."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.link, self.cross = cache(self._link), cache(self._cross)
        self.hold, self.inner = cache(self._hold), cache(self._inner)
        self.rest = cache(self._rest)

    def _link(self, t: int, c: int) -> Any:
        """True if storage t crosses link c -> c + 1: f(u) <= c < f(v) for producer u and some reader v."""
        b, storage = self.builder, self.builder.problem.storages[t]
        u = storage.producer
        readers = [v for v in last_readers(b.problem, storage.readers) if b.upto(v, c) is not True]
        if b.upto(u, c) is False or not readers:
            return False
        literal = b.literal(f"link[{t},{c}]")
        for v in readers:
            b.clause("def_link", [no(b.upto(u, c)), b.upto(v, c), literal])
        return literal

    def _cross(self, t: int, c: int) -> Any:
        """True if storage t crosses the boundary of chip c: on[u, c] ≠ on[v, c] for producer u and some reader v."""
        b, storage = self.builder, self.builder.problem.storages[t]
        u = storage.producer
        if not any(c in b.domain[v] for v in (u, *storage.readers)):
            return False
        literal = b.literal(f"cross[{t},{c}]")
        for v in storage.readers:
            b.clause("def_cross", [no(b.on(u, c)), b.on(v, c), literal])
            b.clause("def_cross", [b.on(u, c), no(b.on(v, c)), literal])
        return literal

    def _hold(self, t: int, c: int) -> Any:
        """True if storage t crosses the boundary of chip c or passes through it: f(u) < c < f(v) for some reader v."""
        b, storage = self.builder, self.builder.problem.storages[t]
        u, cross = storage.producer, self.cross(t, c)
        readers = [v for v in last_readers(b.problem, storage.readers) if b.upto(v, c) is not True]
        if cross is False and (b.upto(u, c - 1) is False or not readers):
            return False
        literal = b.literal(f"hold[{t},{c}]")
        b.clause("def_hold", [no(cross), literal])
        for v in readers:
            b.clause("def_hold", [no(b.upto(u, c - 1)), b.upto(v, c), literal])
        return literal

    def _inner(self, t: int, c: int) -> Any:
        """True if storage t is made on chip c and doesn't cross its boundary."""
        b, u = self.builder, self.builder.problem.storages[t].producer
        if b.on(u, c) is False:
            return False
        literal = b.literal(f"inner[{t},{c}]")
        b.clause("def_inner", [no(b.on(u, c)), self.cross(t, c), literal])
        return literal

    def _rest(self, s: int, c: int) -> Any:
        """True if shared constant s rests on chip c: on[v, c] for some reader v."""
        b = self.builder
        readers = [b.on(v, c) for v in b.problem.shared[s].readers if c in b.domain[v]]
        if not readers or any(reader is True for reader in readers):
            return bool(readers)
        literal = b.literal(f"rest[{s},{c}]")
        for reader in readers:
            b.clause("def_rest", [no(reader), literal])
        return literal


def c4_memory(builder: Builder, moves: Moves) -> list[Any]:
    """C4: weights on c + 2 · (bytes of the storages that cross its boundary) <= S; the left sides in bytes, by chip.

    Grade ``full``: + 2 · (bytes of the storages that pass through) + the peak of those made and read on c only.
    """
    problem, sums = builder.problem, []
    sized = [(t, s.bytes) for t, s in enumerate(problem.storages) if s.bytes]
    held, lives = (moves.hold, steps_alive(problem)) if problem.full_memory else (moves.cross, [])
    for c in builder.counted:
        peak = builder.integer(0, sum(size for _, size in sized), f"peak[{c}]") if problem.full_memory else None
        for alive in lives:
            parts = [(problem.storages[t].bytes, moves.inner(t, c)) for t in alive]
            if any(literal is not False for _, literal in parts):
                at_most(builder, "def_peak", parts, peak)
        parts = on_chip(builder, problem.weight_bytes, c) + [(2 * size, held(t, c)) for t, size in sized]
        parts += [(constant.bytes, moves.rest(s, c)) for s, constant in enumerate(problem.shared)]
        parts = [*parts, (1, peak)] if problem.full_memory else parts
        sums.append(at_most(builder, "c4_memory", parts, problem.sram_bytes))
    return sums


def t1_chip(builder: Builder, moves: Moves, period: Any) -> list[Any]:
    """T1 <= period: each chip's work, and in modes ``sum`` and ``sum_forward`` the transfers that it pays."""
    problem = builder.problem
    paid = [(t, storage.ticks) for t, storage in enumerate(problem.storages) if storage.ticks]
    sums = []
    for c in builder.counted:
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
        for c in builder.counted[:-1]
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
