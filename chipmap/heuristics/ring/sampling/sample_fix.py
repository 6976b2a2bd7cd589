"""The paper's constraint-solver modes SAMPLE and FIX (section 4.2, algorithms 1 and 2) on our own propagator.

Both visit the operations of a contracted instance in an order (by default a random one each time) and give each a chip
from its domain: SAMPLE draws it from a distribution, FIX keeps the candidate's chip where it can and draws the others
uniformly afterwards. The result obeys C0 to C3 as far as they are in force; C4 is left to whoever judges it, like the
paper's dynamic constraint.

A search that has failed too often begins again, in a new order if none was given. After the last budget, rule ``full``
falls back on ``path``, whose mappings it contains and which needs no backtracking on connected graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipmap.heuristics.ring.sampling.kernel import FOUND, NONE_LEFT, Levels, Rules, Task, many
from chipmap.heuristics.ring.sampling.propagate import Propagator, SampleRule, propagator
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.records import InputError

#: Failures after which a search begins again; the budget of the last is larger, so that small instances are decided.
BUDGETS = (*(300,) * 8, 5_000)


@dataclass(frozen=True, eq=False)
class Samples:
    """Mappings ``chips`` [k, n] of the computing operations, in the contraction's order, with their ``status`` [k].

    Rows without a mapping are -1.

    Status 1: found under the rule; 2: under ``path``, after rule ``full`` had used up its budgets; 0: proved that there
    is none; -1: given up.
    """

    chips: IntArray
    status: IntArray

    @property
    def valid(self) -> NDArray[np.bool_]:
        """[k]: whether there is a mapping."""
        found: NDArray[np.bool_] = self.status >= FOUND
        return found


class Sampler:
    """SAMPLE and FIX on one contracted problem under one rule; everything that samples share is made once.

    ``problem`` has its computing operations alone: that is what n counts here.

    Sample i of a batch depends on (seed, ``first`` + i) alone: batches can be cut anywhere. Not for use by several
    threads at once. Raises :class:`InputError` for instances that the rule doesn't cover.
    """

    def __init__(self, problem: RingProblem, rule: SampleRule = "full") -> None:
        self.propagator: Propagator = propagator(problem, rule)
        self.problem, self.rule = self.propagator.problem, rule
        problem = self.problem
        spare = propagator(problem, "path") if rule == "full" else self.propagator
        self._spare = Rules(spare.net, np.zeros((0, 2), dtype=np.int64))
        if rule == "full" and spare.root is not None:
            self._spare = Rules(spare.net, spare.root)
        self._state = self.propagator.state()
        n, chips = problem.n, problem.chips
        self._levels = Levels(
            mark=np.zeros(max(1, 2 * n), dtype=np.int64),
            who=np.zeros(max(1, 2 * n), dtype=np.int64),
            choice=np.zeros(max(1, 2 * n), dtype=np.int64),
            tried=np.zeros((max(1, 2 * n), chips + 1), dtype=np.bool_),
            changed=np.zeros(max(1, 2 * n), dtype=np.bool_),
            box=np.zeros((max(1, 2 * n), 2), dtype=np.int64),
        )

    def left(self) -> NDArray[np.bool_]:
        """[n, C]: the chips that each operation of the last sample was drawn from by SAMPLE: its domain then, less what
        had failed there. One chip alone where propagation had left no choice. The chances of the failures themselves,
        which rules without dead ends don't have, aren't told."""
        n, chips, levels = self.problem.n, self.problem.chips, self._levels
        found = np.zeros((n, chips), dtype=np.bool_)
        who, box = levels.who[:n], levels.box[:n]
        inside = (np.arange(chips) >= box[:, :1]) & (np.arange(chips) <= box[:, 1:])
        own = self.propagator.net.allowed[0, who] == np.arange(chips)
        found[who] = inside & np.where((box[:, 0] == box[:, 1])[:, None], True, own & ~levels.tried[:n, :chips])
        return found

    @property
    def possible(self) -> bool:
        """False: no mapping obeys the rule, as propagation shows."""
        return self.propagator.root is not None

    def sample(
        self,
        count: int,
        seed: int,
        probabilities: ArrayLike | None = None,
        order: Sequence[int] | None = None,
        first: int = 0,
    ) -> Samples:
        """``count`` runs of algorithm 1. ``probabilities`` [n, C] >= 0 (rows need not add up to 1); None: uniform.

        Where they are 0 on all that is left of an operation's domain, the draw is uniform. ``order``: all operations.
        """
        wishes = np.full((1, self.problem.n), -1, dtype=np.int64)
        return self._many(count, first, seed, self._weights(probabilities), wishes, False, order)

    def fix(
        self, candidates: ArrayLike, seed: int, order: Sequence[int] | None = None, count: int = 1, first: int = 0
    ) -> Samples:
        """Algorithm 2 on ``candidates`` [k, n], or ``count`` times on the one candidate [n]; chips may be out of range.

        A valid candidate comes back unchanged.
        """
        given = np.array(candidates)
        one = given.ndim == 1
        wishes = given.reshape(1, -1) if one else given
        if wishes.ndim != 2 or wishes.shape[1] != self.problem.n or (wishes.size and wishes.dtype.kind not in "iu"):
            raise InputError(
                f"has shape {given.shape} and type {given.dtype}", "candidates", f"Give {self.problem.n} chips each."
            )
        rows = count if one else len(wishes)
        inside = np.where((wishes >= 0) & (wishes < self.problem.chips), wishes, -1).astype(np.int64)
        return self._many(rows, first, seed, self._weights(None), inside, True, order)

    def _many(
        self,
        count: int,
        first: int,
        seed: int,
        weights: NDArray[np.float64],
        wishes: IntArray,
        fixing: bool,
        order: Sequence[int] | None,
    ) -> Samples:
        n = self.problem.n
        out = np.full((count, n), -1, dtype=np.int64)
        visited = np.arange(n, dtype=np.int64) if order is None else self._order(order)
        root = self.propagator.root
        if root is None or not count:
            return Samples(out, np.full(count, NONE_LEFT, dtype=np.int64))
        task = Task(visited, order is None, weights, wishes, fixing, np.array(BUDGETS, dtype=np.int64))
        rules = Rules(self.propagator.net, root)
        status = many(first, seed % 2**62, rules, self._spare, self._state, self._levels, task, out)
        return Samples(out, status)

    def _order(self, order: Sequence[int]) -> IntArray:
        given = np.array(order, dtype=np.int64)
        if not np.array_equal(np.sort(given), np.arange(self.problem.n)):
            raise InputError("is no order of the operations", "order", f"Name each of 0 to {self.problem.n - 1} once.")
        return given

    def _weights(self, probabilities: ArrayLike | None) -> NDArray[np.float64]:
        n, chips = self.problem.n, self.problem.chips
        if probabilities is None:
            return np.ones((1, chips), dtype=np.float64)
        given = np.ascontiguousarray(probabilities, dtype=np.float64)
        if given.shape != (n, chips) or not np.isfinite(given).all() or (given < 0).any():
            raise InputError(f"has shape {given.shape}", "probabilities", f"Give [{n}, {chips}] numbers >= 0.")
        return given
