"""Who sits where, for CP-SAT: an integer per operation with literals where they are needed; C0, C1, C2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from ortools.sat.python import cp_model

from chipmap.formulations.cpsat import LabelledModel, Literal, no
from chipmap.instances.ring.problem import RingProblem


@dataclass(frozen=True)
class Neighbourhood:
    """The mappings that differ from the mapping ``chips`` [n] only in what the chips ``first`` … ``last`` share out.

    Nothing that any other chip, or a link not between two of these, works, carries or holds differs, in any cost mode
    or grade: whom a storage leaves or reaches outside stays the same.
    """

    chips: tuple[int, ...]
    first: int
    last: int

    def domain(self, v: int) -> tuple[int, int]:
        """The chips that operation ``v`` may have, from … to."""
        c = self.chips[v]
        return (self.first, self.last) if self.first <= c <= self.last else (c, c)


class Builder(LabelledModel):
    """A ``CpModel`` on its way: the chip of each operation, and literals made when they are first asked for.

    ``chip[v]`` is the integer f(v); ``on(v, c)`` and ``upto(v, c)`` give [f(v) = c] and [f(v) <= c], Booleans where the
    domain decides. ``counted`` are the chips whose loads and memory the model limits: all, or those of the
    neighbourhood ``around``.
    """

    def __init__(
        self,
        model: cp_model.CpModel,
        problem: RingProblem,
        windows: Mapping[int, tuple[int, int]] | None,
        prefix: str,
        assume: bool,
        around: Neighbourhood | None = None,
    ) -> None:
        super().__init__(model, prefix, assume)
        self.problem = problem
        self.counted = range(problem.chips) if around is None else range(around.first, around.last + 1)
        self.domain = [self._domain(v, windows, around) for v in range(problem.n)]
        self.chip = [
            model.new_int_var_from_domain(cp_model.Domain.from_values(domain), f"{prefix}chip[{v}]")
            for v, domain in enumerate(self.domain)
        ]
        self.on, self.upto = cache(self._on), cache(self._upto)

    def _domain(self, v: int, windows: Mapping[int, tuple[int, int]] | None, around: Neighbourhood | None) -> list[int]:
        """C0 by domain: the chips in the window and among the allowed ones (all chips if that leaves none)."""
        every = range(self.problem.chips)
        lo, hi = windows[v] if windows is not None and v in windows else (0, every[-1])
        if around is not None:
            lo, hi = max(lo, around.domain(v)[0]), min(hi, around.domain(v)[1])
        allowed = self.problem.allowed[v] if not self.assume else None
        left = [c for c in every if lo <= c <= hi and (allowed is None or c in allowed)]
        if not left:
            self.clause("c0_domain", [])
        return left or list(every)

    def _on(self, v: int, c: int) -> Literal:
        """[f(v) = c]."""
        domain = self.domain[v]
        if len(domain) == 1 or c not in domain:
            return domain == [c]
        literal = self.literal(f"on[{v},{c}]")
        self.model.add(self.chip[v] == c).only_enforce_if(literal)
        self.model.add(self.chip[v] != c).only_enforce_if(~literal)
        return literal

    def _upto(self, v: int, c: int) -> Literal:
        """[f(v) <= c]."""
        domain = self.domain[v]
        if c < domain[0] or c >= domain[-1]:
            return c >= domain[-1]
        if c not in domain:
            return self.upto(v, max(chip for chip in domain if chip <= c))
        if c == domain[0]:
            return self.on(v, c)
        literal = self.literal(f"upto[{v},{c}]")
        self.model.add(self.chip[v] <= c).only_enforce_if(literal)
        self.model.add(self.chip[v] > c).only_enforce_if(~literal)
        return literal


def c0_domain(builder: Builder) -> None:
    """C0: f(v) is none of the chips that pins and forbidden chips leave out (by domain, unless it is assumed)."""
    for v, chips in enumerate(builder.problem.allowed):
        if builder.assume and chips is not None:
            for c in sorted(set(range(builder.problem.chips)) - chips):
                builder.clause("c0_domain", [no(builder.on(v, c))])


def c0_domain_together(builder: Builder) -> None:
    """C0: f(u) = f(v) for u, v of one keep-together group."""
    for group in builder.problem.groups:
        for v in group[1:]:
            builder.enforce("c0_domain_together", builder.model.add(builder.chip[group[0]] == builder.chip[v]))


def c0_domain_apart(builder: Builder) -> None:
    """C0: f(u) != f(v) for u, v of one group of which no two share a chip."""
    for group in builder.problem.apart:
        if builder.assume:
            for u, v in combinations(group, 2):
                builder.enforce("c0_domain_apart", builder.model.add(builder.chip[u] != builder.chip[v]))
        else:
            builder.model.add_all_different(builder.chip[v] for v in group)


def c1_flow(builder: Builder) -> None:
    """C1: f(u) <= f(v) on every edge of the graph (equation 2)."""
    for u, v in builder.problem.edges.tolist():
        if builder.domain[u][-1] > builder.domain[v][0]:
            builder.enforce("c1_flow", builder.model.add(builder.chip[u] <= builder.chip[v]))


def c2_no_skipping(builder: Builder) -> None:
    """C2: the used chips are 0, …, K - 1 (equation 3).

    used[c] only if a computing operation is on c; f(v) < c, or c is used, for every computing v. With C1, those that
    feed none speak for all.
    """
    problem = builder.problem
    computing = np.flatnonzero(problem.computing).tolist()
    if not computing:
        return
    inner = set(problem.flows[:, 0].tolist()) if problem.has("C1") else set()
    lowest = max(builder.domain[v][0] for v in computing)
    for c in range(problem.chips):
        somebody = [builder.on(v, c) for v in computing if c in builder.domain[v]]
        if c <= lowest:
            builder.clause("c2_no_skipping", somebody)
            continue
        used = builder.literal(f"used[{c}]")
        builder.clause("c2_no_skipping", [~used, *somebody])
        for v in computing:
            if v not in inner:
                builder.clause("c2_no_skipping", [used, builder.upto(v, c - 1)])
