"""C5 by logic-based Benders decomposition: what the oracle rejected becomes cuts on the contracted instance.

Every round solves a relaxation (the cuts remove rejected mappings only), so that its bound holds; the next round has
more cuts. Programs over ideals take rejected chip sets as screens; the models take all cuts as rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chipmap.family import resolve
from chipmap.instances.ring.contraction import Contraction, lift
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.oracle import Oracle, Verdict
from chipmap.result import Infeasibility
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.heuristics.ring.programs.program import Programs
    from chipmap.heuristics.ring.programs.screens import RejectedBlocks

Block = tuple[frozenset[int], bool]


class Cuts:
    """The cuts that follow from an oracle's rejections, in operations of ``contraction.instance`` (None: the original).

    ``blocks`` are sets that no chip may hold (exactly, or monotone: with whatever others); ``mappings`` the chips of
    all computing operations.
    """

    def __init__(self, run: Run, instance: RingInstance, contraction: Contraction | None = None) -> None:
        self.run, self.instance, self.contraction = run, instance, contraction
        self.blocks: list[Block] = []
        self.mappings: list[dict[int, int]] = []
        self._seen = 0

    def update(self) -> bool:
        """Take in the rejections since the last call; whether there were any."""
        oracle = self.run.oracle
        if oracle is None or self._seen == len(oracle.rejections):
            return False
        while self._seen < len(oracle.rejections):
            rejection = oracle.rejections[self._seen]
            self._seen += 1
            used = {rejection.solution.chips[v] for v in self._computing}
            # a chip that runs nothing says nothing about sets: then only the mapping is cut off
            blocks = [verdict for verdict in rejection.verdicts if verdict.scope != "mapping" and verdict.chip in used]
            for block in (self._block(oracle, rejection.solution, verdict) for verdict in blocks):
                if block not in self.blocks:
                    self.blocks.append(block)
            if not blocks:
                self.mappings.append(self._contracted(dict(enumerate(rejection.solution.chips))))
        return True

    def screen(self, programs: Programs) -> RejectedBlocks | None:
        """Have ``programs`` obey the cuts on blocks; by H's own ``on_chip`` if it has one, before any is made."""
        from chipmap.heuristics.ring.programs.screens import JudgedBlocks, RejectedBlocks

        oracle, problem = self.run.oracle, programs.problem
        if oracle is None or (not problem.has("C2") and any(chips is not None for chips in problem.allowed)):
            return None  # only pins may ask for empty chips, which screened programs don't make
        rejected = RejectedBlocks(programs.graph)
        programs.screens.append(rejected)
        if oracle.on_chip is not None and oracle.scope != "mapping":
            judged = JudgedBlocks(programs.graph, lambda one: oracle.accepts_chip(self.instance, self._originals(one)))
            programs.screens.append(judged)
        return rejected

    def reason(self) -> list[Infeasibility]:
        """Why nothing is left, if the oracle has rejected something; else empty."""
        oracle = self.run.oracle
        if oracle is None or not (oracle.rejections or oracle.blocks_rejected):
            return []
        return [
            Infeasibility.of(
                "C5",
                "mappings that the oracle accepts",
                (1, 0, "mappings"),
                f"no mapping that obeys the other constraints is left: {oracle.note()}",
                *("check the oracle's limits and its declared scope", "more chips: --set package.chips=N"),
            )
        ]

    def _block(self, oracle: Oracle, solution: RingSolution, verdict: Verdict) -> Block:
        """The cut of one rejected chip."""
        held = {v for v in self._computing if solution.chips[v] == verdict.chip}
        if verdict.scope == "chip":
            return frozenset(self._contracted(dict.fromkeys(held, 0))), False
        blamed = set(verdict.operations) & held
        if oracle.on_chip is None:
            blamed = blamed or self._moved_away(oracle, solution, verdict.chip or 0, held)
        else:
            blamed = blamed or held
            for v in sorted(blamed):
                smaller = tuple(sorted(blamed - {v}))
                if smaller and not oracle.accepts_chip(self.instance, smaller):
                    blamed.remove(v)
        return frozenset(self._contracted(dict.fromkeys(blamed, 0))), True

    def _moved_away(self, oracle: Oracle, solution: RingSolution, chip: int, held: set[int]) -> set[int]:
        """Deletion tests by mappings: an operation moves to a neighbour chip, and H still rejects what stays.

        Only mappings that obey all other constraints are asked about; where there is none, the operation stays.
        """
        left, chips = set(held), list(solution.chips)
        for v in sorted(held):
            for other in (chip - 1, chip + 1):
                if len(left) == 1 or not 0 <= other < self.instance.package.chips or v not in left:
                    continue
                tried = {u: other if u == v else chips[u] for u in self._computing}
                moved = lift(self.instance, tried)
                violations = self.run.check(self.instance, moved).violations
                if not violations or any(violation.label != "C5" for violation in violations):
                    continue
                if any(again.chip == chip for again in oracle.ask(self.instance, moved)):
                    left.remove(v)
                    chips = list(moved.chips)
        return left

    @cached_property
    def _computing(self) -> set[int]:
        """The computing operations of the original instance."""
        return set(np.flatnonzero(ring_problem(self.instance).computing).tolist())

    def _contracted(self, values: dict[int, int]) -> dict[int, int]:
        """Values of original operations as values of the contracted ones (of some member)."""
        if self.contraction is None:
            return {v: value for v, value in values.items() if v in self._computing}
        return {
            v: next(values[u] for u in group if u in values)
            for v, group in enumerate(self.contraction.members)
            if any(u in values for u in group)
        }

    def _originals(self, block: tuple[int, ...]) -> tuple[int, ...]:
        if self.contraction is None:
            return block
        return tuple(sorted(u for v in block for u in self.contraction.members[v] if u in self._computing))

    def apply(self, model: Any) -> None:
        """Add the cuts that ``model`` doesn't have yet."""
        if self.blocks or self.mappings:
            cut_rejected = resolve(f"chipmap.formulations.ring.{model.kind}_cuts:cut_rejected")
            cut_rejected(model, self.blocks, self.mappings)
